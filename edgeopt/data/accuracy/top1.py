"""Share of positions whose most probable class is the label: one position an image, or one a pixel.

Evidence, one row a sample: right, total, right if labels were one lower, right if labels were one
higher, most frequent label, how often it occurs.
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
from edgeopt.data.ratio import Ratio

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Top1(Ratio):
    """Top-1 accuracy.

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
        """One row. A position with an output that is not a number is wrong.

        Raises:
            DataError: Label and output do not fit each other.
        """
        labels = class_labels(target, self.classes)
        found, classes = predicted_classes(
            pick(outputs, self.output), labels, axis=self.axis, threshold=self.threshold
        )
        require_range(labels, classes, self.ignore)
        if self.ignore is not None:
            found, labels = found[labels != self.ignore], labels[labels != self.ignore]
        names, counts = np.unique(labels, return_counts=True)
        most = int(np.argmax(counts)) if len(counts) else 0
        common = (names[most], counts[most]) if len(counts) else (0, 0)
        right = [np.sum(found == labels + shift) for shift in (0, -1, 1)]
        return np.array([[right[0], labels.size, *right[1:], *common]], dtype=np.float64)

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """The most probable class."""
        return class_reduction(
            outputs, target, name=self.output, axis=self.axis, threshold=self.threshold
        )

    def chance(self, evidence: Floats) -> float:
        """Share of the most frequent label (where a row is an image: of rows' most frequent)."""
        frequent = np.bincount(evidence[:, 4].astype(np.int64), weights=evidence[:, 5])
        return float(frequent.max() / max(evidence[:, 1].sum(), 1.0))

    def if_only(self, evidence: Floats) -> Mapping[str, float]:
        """The value if labels were counted from another number."""
        total = max(float(evidence[:, 1].sum()), 1.0)
        return {
            "labels seem to be counted from 1: with labels one lower": float(
                evidence[:, 2].sum() / total
            ),
            "labels seem to be counted one too low (an output for background comes first?): "
            "with labels one higher": float(evidence[:, 3].sum() / total),
        }


PLUGIN = Top1
