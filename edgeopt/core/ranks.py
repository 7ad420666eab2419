"""Agreement of two orders as a number."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def rank_correlation(first: Floats, second: Floats) -> float | None:
    """Spearman's; None for fewer than three values, or where one side is constant."""
    if len(first) < 3:
        return None
    ranks = [np.array([(s < x).sum() + (s <= x).sum() for x in s]) for s in (first, second)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
