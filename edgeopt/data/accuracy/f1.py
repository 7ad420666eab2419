"""Macro F1: the mean over classes of 2 TP / (2 TP + FP + FN), over classes that occur or are said.

Evidence, one row a position: label, predicted class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.outputs import (
    class_labels,
    class_reduction,
    pick,
    predicted_classes,
    require_range,
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class F1:
    """Macro F1; the options are those of top1.

    Args:
        output: Name of the output; the first by default.
        axis: Where its classes are; found from the label's shape by default.
        threshold: For one value a position: above it is class 1.
        ignore: A label that does not count.
        classes: Names of the classes, for labels that are texts.
    """

    output: str = ""
    axis: int | None = None
    threshold: float | None = None
    ignore: int | None = None
    classes: Sequence[str] = ()
    needs_target: bool = True
    needs_reference: bool = False

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row a position. Class -1 stands for an output that is not a number.

        Raises:
            DataError: Label and output do not fit each other.
        """
        labels = class_labels(target, self.classes)
        found, classes = predicted_classes(
            pick(outputs, self.output), labels, axis=self.axis, threshold=self.threshold
        )
        require_range(labels, classes, self.ignore)
        rows = np.stack([labels.ravel(), found.ravel()], axis=1).astype(np.float64)
        return rows if self.ignore is None else rows[rows[:, 0] != self.ignore]

    def value(self, evidence: Floats) -> float:
        """Mean over classes."""
        return float(self.weighted(evidence, np.ones((1, len(evidence))))[0])

    def weighted(self, evidence: Floats, weights: Floats) -> Floats:
        """See `Weighted`. A draw in which a class neither occurs nor is said leaves it out."""
        names, place = np.unique(evidence, return_inverse=True)
        label, said = place.reshape(evidence.shape).T
        hits = _by_class(weights * (label == said), label, len(names))
        seen = _by_class(weights, label, len(names)) + _by_class(weights, said, len(names))
        hits, seen = hits[:, names >= 0], seen[:, names >= 0]
        known = np.sum(seen > 0, axis=1)
        each = np.divide(2 * hits, seen, out=np.zeros_like(seen), where=seen > 0)
        return np.divide(each.sum(axis=1), known, out=np.full(len(known), np.nan), where=known > 0)

    def right(self, evidence: Floats) -> Floats:
        """1 where label and prediction agree."""
        return (evidence[:, 0] == evidence[:, 1]).astype(np.float64)

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """The most probable class."""
        return class_reduction(
            outputs, target, name=self.output, axis=self.axis, threshold=self.threshold
        )

    def chance(self, evidence: Floats) -> float:
        """Guessing classes as often as they occur reaches the mean share of a class."""
        return 1.0 / max(len(np.unique(evidence[:, 0])), 1)


def _by_class(weights: Floats, place: npt.NDArray[np.int64], classes: int) -> Floats:
    """Weights [draws, rows] summed by class [draws, classes]."""
    found = np.empty((len(weights), classes))
    for index, row in enumerate(weights):
        found[index] = np.bincount(place, weights=row, minlength=classes)
    return found


PLUGIN = F1
