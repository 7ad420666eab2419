"""Which percentiles samples can defend, and what drifts."""

import math
from collections.abc import Sequence

import numpy as np

from edgeopt.core.samples import Interval, student

CONFIDENCE = 0.99


def tail(count: int, over: int, quantile: float) -> float:
    """P(at most `over` of `count` runs exceed the quantile's true value): binomial, [0, 1].

    Each run exceeds the p-quantile with probability 1 - p.
    """
    total = 0.0
    for k in range(over + 1):
        choose = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        total += math.exp(choose + k * math.log1p(-quantile) + (count - k) * math.log(quantile))
    return min(1.0, total)


def allowed_over(count: int, quantile: float) -> int:
    """How many runs may be slower than a bound that holds with 99 % confidence; -1 for none.

    The early-stopping rule of MLPerf's LoadGen (mlcommons/inference, early_stopping.cc): the
    largest t for which t slower runs among `count` would be too few by chance.
    """
    over = -1
    while over + 1 < count and tail(count, over + 1, quantile) <= 1 - CONFIDENCE:
        over += 1
    return over


def minimum_count(quantile: float) -> int:
    """Runs below which a percentile is not reported: 64 for p90, 219 for p97, 662 for p99.

    One run may be slower than the bound, so that a single interruption does not set it.
    """
    count = 2
    while tail(count, 1, quantile) > 1 - CONFIDENCE:
        count += 1
    return count


def upper_bound(values: Sequence[float], quantile: float) -> float | None:
    """What the quantile lies below with 99 % confidence; None where there are too few runs.

    The `t - 1` slowest are discarded and the largest of the rest is reported.
    """
    over = allowed_over(len(values), quantile)
    if over < 1:
        return None
    return float(np.sort(np.asarray(values))[-over])


def drift(medians: Sequence[float]) -> float:
    """How far the later half of blocks lies from the earlier one, as a share; 0 for one block.

    Medians of halves, so that one disturbed block among several does not look like a drift.
    """
    if len(medians) < 2:
        return 0.0
    half = len(medians) // 2
    early, late = float(np.median(medians[:half])), float(np.median(medians[-half:]))
    return (late - early) / early


def settled(medians: Sequence[float], tolerance: float) -> bool:
    """Whether a warm-up has ended: the last two windows' medians agree."""
    if len(medians) < 2:
        return False
    return abs(medians[-1] - medians[-2]) <= tolerance * medians[-2]


def median_interval(values: Sequence[float]) -> Interval | None:
    """The median of positive values with a 95 % interval; None from fewer than three.

    Student's interval of the mean logarithm, stretched to hold the median: single loads of a
    model scatter by factors, and three of them bound nothing by their order.
    """
    if len(values) < 3:
        return None
    logs = np.log(np.asarray(values, dtype=np.float64))
    reach = student(len(values) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(values))
    centre, median = float(logs.mean()), float(np.median(values))
    low, high = math.exp(centre - reach), math.exp(centre + reach)
    return Interval(value=median, low=min(low, median), high=max(high, median))


def share_interval(hits: int, count: int) -> Interval:
    """A share with Wilson's 95 % interval."""
    z = student(None)
    share, scale = hits / count, 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    low, high = max(0.0, centre - reach), min(1.0, centre + reach)
    return Interval(value=share, low=min(low, share), high=max(high, share))
