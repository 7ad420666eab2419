"""A user's own metric: an object with the protocol's methods, or a function a sample.

`--metric python:package.thing` where thing is `(outputs, target) -> float` (higher is better; the
value is the mean), an object with `evidence` and `value`, or a class of such objects, which gets
the options.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isclass, signature
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import AccuracyMetric, Arrays
from edgeopt.data.accuracy_metric import Judges, Weighted
from edgeopt.data.python_object import load_object, running
from edgeopt.data.ratio import Ratio
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Function(Ratio):
    """A function of outputs and target: evidence is its value and 1, the value their mean."""

    function: Callable[[Arrays, Array | None], float]
    where: str
    needs_target: bool = False
    needs_reference: bool = False

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row.

        Raises:
            DataError: The function raised, or gave no finite number.
        """
        with running(self.where, "the metric failed on a sample"):
            found = float(self.function(outputs, target))
        if not np.isfinite(found):
            raise DataError(f"the metric gave {found}", where=self.where)
        return np.array([[found, 1.0]])

    def chance(self, evidence: Floats) -> None:
        """Unknown for a function."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A user's metric object, whose exceptions become messages."""

    metric: AccuracyMetric
    where: str

    @property
    def needs_target(self) -> bool:
        """As the object says."""
        return bool(getattr(self.metric, "needs_target", True))

    @property
    def needs_reference(self) -> bool:
        """As the object says."""
        return bool(getattr(self.metric, "needs_reference", False))

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """The object's rows.

        Raises:
            DataError: It raised, or gave something that is no array of finite numbers.
        """
        with running(self.where, "the metric failed on a sample"):
            found = np.asarray(self.metric.evidence(outputs, target, reference), dtype=np.float64)
        if not np.isfinite(found).all():
            raise DataError("the metric gave evidence that is not finite", where=self.where)
        return found

    def value(self, evidence: Floats) -> float:
        """The object's value."""
        with running(self.where, "the metric failed on its evidence"):
            return float(self.metric.value(evidence))

    def weighted(self, evidence: Floats, weights: Floats) -> Floats:
        """The object's, or its value over repeated rows."""
        with running(self.where, "the metric failed on its evidence"):
            if isinstance(self.metric, Weighted):
                return self.metric.weighted(evidence, weights)
            times = weights.astype(np.int64)
            return np.array([self.metric.value(np.repeat(evidence, n, axis=0)) for n in times])

    def right(self, evidence: Floats) -> Floats:
        """The object's, or the first column."""
        if not isinstance(self.metric, Judges):
            return evidence[:, 0]
        with running(self.where, "the metric failed on its evidence"):
            return self.metric.right(evidence)

    def chance(self, evidence: Floats) -> float | None:
        """The object's, where it has that."""
        if not hasattr(self.metric, "chance"):
            return None
        with running(self.where, "the metric failed on its evidence"):
            return self.metric.chance(evidence)


def load(
    *,
    function: str,
    own: Mapping[str, Any] | None = None,
    shared: Mapping[str, Any] | None = None,
) -> AccuracyMetric:
    """The metric that a specification names.

    Args:
        function: `package.thing` or `file.py:thing`.
        own: Options that no metric on the shelf has; all go to the class.
        shared: Options that metrics on the shelf have too; the class gets those it takes.

    Raises:
        DataError: It cannot be imported, or is neither a metric nor a function.
    """
    where = f"python:{function}"
    found = load_object(function)
    if isclass(found):
        return Guarded(_made(found, where, own or {}, shared or {}), where)
    if own:
        raise DataError(
            f"a metric that is no class takes no options, given: {', '.join(sorted(own))}",
            where=where,
        )
    if hasattr(found, "evidence") and hasattr(found, "value"):
        return Guarded(found, where)
    if callable(found):
        return Function(cast("Callable[[Arrays, Array | None], float]", found), where)
    raise DataError(
        f"a {type(found).__name__} is not a metric",
        where=where,
        hint="give a function (outputs, target) -> float, or an object with evidence and value",
    )


def _made(
    of: Callable[..., Any], where: str, own: Mapping[str, Any], shared: Mapping[str, Any]
) -> AccuracyMetric:
    with running(where, "the metric cannot be made"):
        taken = signature(of).parameters
        made: Any = of(**{k: v for k, v in shared.items() if k in taken}, **own)
    if not (hasattr(made, "evidence") and hasattr(made, "value")):
        raise DataError("the class has no methods evidence and value", where=where)
    return made


PLUGIN = load
