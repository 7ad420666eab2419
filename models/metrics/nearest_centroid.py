"""Share of samples whose embedding lies nearest to the centroid of their own class.

Evidence, one row a sample: right, 1. The label of a sample is its class and over how many rows of
the output the embedding is the mean: a sentence's tokens without padding, 1 where there is one.
"""

import numpy as np


class NearestCentroid:
    """A metric with the methods of edgeopt's `AccuracyMetric`.

    Args:
        centroids: Unit vectors [classes, width]; with offsets any weights of a linear classifier.
        output: Name of the output that holds the embedding or hidden states [1, tokens, width].
        offsets: [classes], added to the products with the weights; zeros by default.
    """

    needs_target = True
    needs_reference = False

    def __init__(self, centroids, output: str, offsets=0.0) -> None:
        self.centroids = np.asarray(centroids, dtype=np.float64)
        self.offsets = np.asarray(offsets, dtype=np.float64)
        self.output = output

    def evidence(self, outputs, target, reference):
        """One row; an embedding that is not finite is wrong."""
        own, count = (int(value) for value in np.asarray(target).ravel())
        hidden = np.asarray(outputs[self.output], dtype=np.float64)
        embedding = hidden.reshape(-1, hidden.shape[-1])[:count].mean(axis=0)
        near = self.centroids @ embedding + self.offsets
        right = bool(np.isfinite(near).all()) and int(np.argmax(near)) == own
        return np.array([[float(right), 1.0]])

    def value(self, evidence) -> float:
        """Right over all."""
        return float(evidence[:, 0].sum() / evidence[:, 1].sum())

    def of_sums(self, sums):
        """Values [draws] of column sums [draws, 2]."""
        return sums[:, 0] / sums[:, 1]

    def right(self, evidence):
        """1 or 0 a row."""
        return evidence[:, 0]

    def chance(self, evidence) -> float:
        """Classes are equally frequent."""
        return 1.0 / len(self.centroids)
