"""Area under the ROC curve of a binary decision: the chance that a positive outranks a negative.

Evidence, one row a decision (a frame, an item): score, label. The value is the Mann-Whitney
statistic with ties counted half (Hanley and McNeil 1982).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.outputs import class_labels, pick, picked
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auc:
    """Area under the curve.

    Args:
        output: Name of the output; the first by default.
        column: Index of the positive class along `axis`; the second of two by default.
        axis: Where the classes are.
    """

    output: str = ""
    column: int | None = None
    axis: int = -1
    needs_target: bool = True
    needs_reference: bool = False

    def evidence(self, outputs: Arrays, target: Array | None, reference: Arrays | None) -> Floats:
        """One row a label. A number that is none ranks last of the positives, first of the rest.

        Raises:
            DataError: Labels other than 0 and 1, or not as many as there are outputs.
        """
        labels = class_labels(target, ()).ravel().astype(np.float64)
        if np.any((labels != 0) & (labels != 1)):
            raise DataError(
                f"labels other than 0 and 1: {sorted(set(labels.astype(int).tolist()))}",
                hint="auc judges a decision between two; use top1 or f1 for more classes",
            )
        output = pick(outputs, self.output)
        scores = self._scores(output, labels.size)
        worst = np.where(labels == 1, -np.inf, np.inf)
        return np.stack([np.where(np.isnan(scores), worst, scores), labels], axis=1)

    def _scores(self, output: Array, wanted: int) -> Floats:
        if self.column is None and output.size == wanted:
            return output.ravel().astype(np.float64)
        classes = output.shape[self.axis] if output.ndim else 1
        column = 1 if self.column is None and classes == 2 else self.column
        if column is None or not -classes <= column < classes or output.size != wanted * classes:
            raise DataError(
                f"{wanted} labels do not fit an output of shape {list(output.shape)}",
                hint="one value a label, or two classes; the metric option column says which",
            )
        return np.take(output, column, axis=self.axis).ravel().astype(np.float64)

    def value(self, evidence: Floats) -> float:
        """The area; not a number where one class is missing."""
        return float(self.weighted(evidence, np.ones((1, len(evidence))))[0])

    def weighted(self, evidence: Floats, weights: Floats) -> Floats:
        """See `Weighted`."""
        order = np.argsort(evidence[:, 0], kind="stable")
        scores, labels = evidence[order, 0], evidence[order, 1]
        starts = np.flatnonzero(np.r_[True, scores[1:] != scores[:-1]])
        drawn = weights[:, order]
        positive = np.add.reduceat(drawn * labels, starts, axis=1)
        negative = np.add.reduceat(drawn * (1 - labels), starts, axis=1)
        below = np.cumsum(negative, axis=1) - 0.5 * negative
        pairs = positive.sum(axis=1) * negative.sum(axis=1)
        won = np.sum(positive * below, axis=1)
        return np.divide(won, pairs, out=np.full_like(won, np.nan), where=pairs > 0)

    def right(self, evidence: Floats) -> Floats:
        """1 where the row is on its side of the threshold that is right most often."""
        order = np.argsort(evidence[:, 0], kind="stable")
        scores, labels = evidence[order, 0], evidence[order, 1]
        hits = np.r_[labels.sum(), labels.sum() + np.cumsum(1 - 2 * labels)]
        allowed = np.r_[True, scores[1:] != scores[:-1], True]
        best = int(np.argmax(np.where(allowed, hits, -1)))
        threshold = np.inf if best == len(scores) else scores[best]
        says = (evidence[:, 0] >= threshold) & (best < len(scores))
        return (says == (evidence[:, 1] == 1)).astype(np.float64)

    def disturbed(self, evidence: Floats, noise: Floats) -> Floats:
        """Ranks 0 to 1 in place of scores (equal scores have equal ranks), with noise added."""
        _, place, times = np.unique(evidence[:, 0], return_inverse=True, return_counts=True)
        middle = (np.cumsum(times) - times / 2) / len(evidence)
        return np.stack([middle[place] + noise, evidence[:, 1]], axis=1)

    def reduction(self, outputs: Arrays, target: Array | None) -> Mapping[str, str]:
        """Its one output, in full."""
        return {picked(outputs, self.output): "full"}

    def chance(self, evidence: Floats) -> float:
        """A coin."""
        return 0.5


PLUGIN = Auc
