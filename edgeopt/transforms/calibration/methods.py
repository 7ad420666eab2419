"""`method_of`: from `range="p99.99+broad"` to the file on the shelf `ranges` that it names.

    minmax      the extremes of all samples
    average     the mean of each sample's extremes
    p99.99      the given share of all elements, in percent
    mse         least squared error of eight-bit codes
    entropy     least divergence of the coded distribution

With `+broad` the samples under the data's own augmentations count as well.
"""

import importlib
import re
from collections.abc import Callable
from typing import Protocol, cast

from edgeopt.errors import UsageError
from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.observation import Observation

METHODS: tuple[str, ...] = ("minmax", "average", "p99.99", "mse", "entropy")
BROAD = "+broad"
_SHELF = "edgeopt.transforms.calibration.ranges"
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


class RangeMethod(Protocol):
    """From what was seen of a value to the range that its codes cover."""

    def __call__(self, seen: Observation) -> Range:
        """A range within the extremes; `seen` is finite and holds a sample."""
        ...


def plain(name: str) -> tuple[str, bool]:
    """A method's name without `+broad`, and whether it was there."""
    return name.removesuffix(BROAD), name.endswith(BROAD)


def method_of(name: str) -> RangeMethod:
    """The method of that name, without `+broad`.

    Raises:
        UsageError: There is none.
    """
    share = _PERCENTILE.fullmatch(name)
    if share is not None and 50 < float(share.group(1)) <= 100:
        make = cast("Callable[[float], RangeMethod]", _loaded("percentile"))
        return make(float(share.group(1)))
    if name not in METHODS or name.startswith("p"):
        raise UsageError(
            f"there is no range method {name!r}",
            hint=f"available: {', '.join(METHODS)}, each also with {BROAD}",
        )
    return cast("RangeMethod", _loaded(name))


def _loaded(file: str) -> object:
    return importlib.import_module(f"{_SHELF}.{file}").PLUGIN
