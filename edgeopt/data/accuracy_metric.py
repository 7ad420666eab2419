"""How accuracy metrics are loaded, and what they may offer beyond the protocol.

A metric's value over rows is computed thousands of times for an interval. One that inherits from
`ratio.Ratio`, or has the method of `Weighted`, does that fast; one that has neither works, slower.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.options import nearest
from edgeopt.errors import DataError
from edgeopt.plugins import ACCURACY

Floats = npt.NDArray[np.float64]


@runtime_checkable
class Weighted(Protocol):
    """A metric that can weigh rows."""

    def weighted(self, evidence: Floats, weights: Floats) -> Floats:
        """Values [draws] of rows [rows, columns] under weights [draws, rows]."""
        ...


@runtime_checkable
class Judges(Protocol):
    """A metric that can say of every row how right it is."""

    def right(self, evidence: Floats) -> Floats:
        """[rows], higher is better; a row whose value falls was lost."""
        ...


@runtime_checkable
class Disturbed(Protocol):
    """A metric of ranks or values, which can say what noise on the model's numbers would do."""

    def disturbed(self, evidence: Floats, noise: Floats) -> Floats:
        """Evidence with noise [rows] added, in units of all ranks or of the signal."""
        ...


@runtime_checkable
class Suspects(Protocol):
    """A metric that can try out usual mistakes in the labels."""

    def if_only(self, evidence: Floats) -> Mapping[str, float]:
        """What the value would be without a mistake, by a clause that names the mistake."""
        ...


@runtime_checkable
class Reducible(Protocol):
    """A metric that does not need whole outputs; see `reduction` for the words."""

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """What it needs of one sample: output to `full`, `argmax:AXIS` or `above:VALUE`.

        An output that is not named is not needed.
        """
        ...


def load_metric(name: str, options: Mapping[str, Any] | None = None) -> AccuracyMetric:
    """The metric of that name with its options.

    Args:
        name: A name on the shelf, or `python:package.function`.
        options: They belong to the data, which may be judged by several metrics: an option of
            another metric is left alone, one that no metric has is refused.

    Raises:
        UsageError: No such metric.
        DataError: An unknown option or an invalid value.
    """
    given = dict(options or {})
    if name.startswith("python:"):
        return ACCURACY.load("python")(
            function=name.removeprefix("python:"),
            own={key: value for key, value in given.items() if key not in _known()},
            shared={key: value for key, value in given.items() if key in _known()},
        )
    plugin = ACCURACY.load(name)
    taken = option_names(plugin)
    for key in given:
        if key not in taken and key not in _known():
            raise DataError(
                f"the metric has no option {key!r}",
                where=f"metric {name}",
                hint=nearest(key, sorted(taken)),
            )
    try:
        return plugin(**{key: value for key, value in given.items() if key in taken})
    except (TypeError, ValueError) as error:
        raise DataError(f"an option is invalid ({error})", where=f"metric {name}") from error


def option_names(plugin: Callable[..., Any]) -> frozenset[str]:
    """Names of the options that a plug-in's factory takes."""
    found = signature(plugin).parameters
    return frozenset(found) - {"needs_target", "needs_reference"}


@cache
def _known() -> frozenset[str]:
    found: set[str] = set()
    for name in ACCURACY.names():
        found |= set() if name == "python" else option_names(ACCURACY.load(name))
    return frozenset(found)
