"""`Ratio`: metrics that are the sum of one column of evidence over the sum of another."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Ratio:
    """The value is sum(evidence[:, 0]) / sum(evidence[:, 1]): rates, means, error rates.

    A metric that inherits says so; its intervals then come from sums alone, which is fast.
    """

    __slots__ = ()

    def value(self, evidence: Floats) -> float:
        """The first column's sum over the second's; not a number where that is 0."""
        return float(share(evidence[:, :1].sum(axis=0), evidence[:, 1:2].sum(axis=0))[0])

    def right(self, evidence: Floats) -> Floats:
        """The ratio of each row [rows]; a row whose ratio falls was lost."""
        return share(evidence[:, 0], evidence[:, 1])


def share(part: Floats, total: Floats) -> Floats:
    """Part over total; not a number where the total is 0."""
    return np.divide(part, total, out=np.full(part.shape, np.nan), where=total > 0)
