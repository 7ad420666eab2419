"""How accuracy metrics are loaded, and what they may offer beyond the protocol.

A metric's value over rows is computed thousands of times for an interval. A metric that can do
that for many draws at once says so by one of two methods; one that offers neither works, slower.

    of_sums     the value depends only on column sums of the evidence (rates, means)
    weighted    the value of rows with weights (how often each was drawn)
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgeopt.core.protocols import AccuracyMetric
from edgeopt.errors import DataError
from edgeopt.plugins import ACCURACY

Floats = npt.NDArray[np.float64]


@runtime_checkable
class Additive(Protocol):
    """A metric whose value depends only on the sums of the evidence's columns."""

    def of_sums(self, sums: Floats) -> Floats:
        """Values [draws] of column sums [draws, columns]."""
        ...


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
class Suspects(Protocol):
    """A metric that can try out usual mistakes in the labels."""

    def if_only(self, evidence: Floats) -> Mapping[str, float]:
        """What the value would be without a mistake, by a clause that names the mistake."""
        ...


def load_metric(name: str, options: Mapping[str, Any] | None = None) -> AccuracyMetric:
    """The metric of that name with its options.

    Args:
        name: A name on the shelf, or `python:package.function`.
        options: Each metric names its own; an unknown one is refused.

    Raises:
        UsageError: No such metric.
        DataError: An option that the metric does not have, or an invalid value.
    """
    given = dict(options or {})
    if name.startswith("python:"):
        given["function"] = name.removeprefix("python:")
        name = "python"
    plugin: Any = ACCURACY.load(name)
    try:
        return plugin(**given)
    except TypeError as error:
        raise DataError(
            f"the options do not fit the metric ({_without_class(error)})",
            where=f"metric {name}",
            hint=f"given: {', '.join(sorted(given)) or 'none'}",
        ) from error


def _without_class(error: TypeError) -> str:
    return str(error).rpartition("__init__() ")[2]
