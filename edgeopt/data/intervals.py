"""What a difference in accuracy means: intervals, the smallest decidable drop, lost and won.

Samples of one group are not independent, so groups are resampled whole; candidate and baseline
are judged on the same draws, since it is their difference that is asked for.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.protocols import AccuracyMetric
from edgeopt.core.samples import Interval
from edgeopt.data.accuracy_metric import Suspects, Weighted
from edgeopt.data.evaluate import Scored
from edgeopt.data.ratio import Ratio, share
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
DRAWS = 2000
_PIECE = 250_000
_Z = 1.959964


def paired_difference(
    metric: AccuracyMetric, candidate: Scored, baseline: Scored, *, seed: int = 0
) -> Interval:
    """Candidate minus baseline with a 95 % interval: negative is a drop.

    Percentile bootstrap over groups, 2000 draws, the same for both; widened by
    sqrt(m / (m - 1)) for m groups, as the percentile bootstrap is too narrow by that much. A
    single group has an unbounded interval. Where no row differs the interval is [0, 0]: these
    samples show no difference, and `smallest_decidable_drop` says how much they could show.

    Raises:
        DataError: The two were not judged on the same rows.
    """
    if not np.array_equal(candidate.groups, baseline.groups):
        raise DataError("candidate and baseline were judged on different rows")
    centre = candidate.value - baseline.value
    units, owner = np.unique(baseline.groups, return_inverse=True)
    if len(units) < 2:
        return Interval(value=centre, low=-np.inf, high=np.inf)
    values = np.diff(_resampled(metric, (baseline, candidate), owner, seed), axis=0)[0]
    low, high = np.nanquantile(values, (0.025, 0.975)) - centre
    widen = float(np.sqrt(len(units) / (len(units) - 1)))
    return Interval(
        value=centre,
        low=centre + min(float(low), 0.0) * widen,
        high=centre + max(float(high), 0.0) * widen,
    )


def standard_error(metric: AccuracyMetric, scored: Scored, *, seed: int = 0) -> float:
    """Standard error of the value, by the same bootstrap; infinite for a single group."""
    units, owner = np.unique(scored.groups, return_inverse=True)
    if len(units) < 2:
        return float("inf")
    values = _resampled(metric, (scored,), owner, seed)[0]
    return float(np.nanstd(values, ddof=1)) * float(np.sqrt(len(units) / (len(units) - 1)))


def smallest_decidable_drop(metric: AccuracyMetric, baseline: Scored) -> float:
    """The smallest drop that these samples can tell from none: 95 %, two-sided, a share.

    A drop is decided where its paired interval excludes zero: d > z * se(d), z = 1.96. For two
    models whose rows correlate with r, se(d) = se(baseline) * sqrt(2 (1 - r)); for a proportion a
    that is the McNemar standard error sqrt(p_d / n) with p_d = 2 a (1 - a)(1 - r) discordant
    pairs (Agresti, Categorical Data Analysis, section 11.1). Here r = 0.5, so d = z * se(baseline)
    from the bootstrap over groups. That is on the safe side for candidates made from the
    baseline: pairs counted on real compressed models (lost + won of n) had r from 0.49
    (148 of 1600 at 90 %) over 0.67 (19 of 900 at 97 %) to 0.74 (75 of 1600 at 90 %).

    Where rows are right or wrong as a whole, a drop consists of lost rows, which are discordant
    themselves (p_d >= d); d is then never below z^2 / (n + z^2), also for a baseline of 100 %.
    """
    units = np.unique(baseline.groups)
    error = standard_error(metric, baseline)
    if not np.isfinite(error):
        return float("inf")
    whole = bool(np.isin(baseline.right[~np.isnan(baseline.right)], (0, 1)).all())
    floor = _Z**2 / (len(units) + _Z**2) if whole or error == 0 else 0.0
    return max(_Z * error, floor)


def lost_and_won(candidate: Scored, baseline: Scored) -> tuple[int, int]:
    """How many rows the candidate gets less right than the baseline, and how many more right."""
    difference = candidate.right - baseline.right
    return int(np.sum(difference < 0)), int(np.sum(difference > 0))


def near_chance(metric: AccuracyMetric, scored: Scored) -> str | None:
    """What may be wrong with a baseline that hardly beats guessing; None where it does.

    Near means within two standard errors of chance, or within a twentieth of the way from
    chance to 1.
    """
    chance = metric.chance(scored.evidence)
    if chance is None:
        return None
    better = _without_a_mistake(metric, scored)
    spread = standard_error(metric, scored)
    margin = max(0.05 * (1 - chance), 2 * spread if np.isfinite(spread) else 0.0)
    if scored.value > chance + margin:
        return None
    head = f"the baseline reaches {scored.value:.1%}, and guessing reaches {chance:.1%}: "
    if better:
        return head + better
    return (
        head + "check the preprocessing (mean, scale, channel order, layout), the order and offset "
        "of the labels, and whether the metric looks at the right output"
    )


def _without_a_mistake(metric: AccuracyMetric, scored: Scored) -> str:
    if not isinstance(metric, Suspects):
        return ""
    found = metric.if_only(scored.evidence)
    clause = max(found, key=lambda key: found[key], default="")
    if not clause or found[clause] < scored.value + 0.2:
        return ""
    return f"{clause} it would be {found[clause]:.1%}"


def _resampled(
    metric: AccuracyMetric, scored: Sequence[Scored], owner: Integers, seed: int
) -> Floats:
    """Values [scored, draws] of several models on the same draws of units.

    Args:
        owner: [rows], the unit of each row, counted from 0.
    """
    if isinstance(metric, Ratio):
        return _of_ratios([found.evidence[:, :2] for found in scored], owner, seed)
    units, pieces = int(owner.max()) + 1, list[Floats]()
    for counts in _draws(units, len(owner), seed):
        weights = counts[:, owner]
        pieces.append(np.stack([_weighted(metric, found.evidence, weights) for found in scored]))
    return np.concatenate(pieces, axis=1)


def _weighted(metric: AccuracyMetric, evidence: Floats, weights: Floats) -> Floats:
    if isinstance(metric, Weighted):
        return metric.weighted(evidence, weights)
    times = weights.astype(np.int64)
    return np.array([metric.value(np.repeat(evidence, row, axis=0)) for row in times])


def _of_ratios(evidence: Sequence[Floats], owner: Integers, seed: int) -> Floats:
    """Units with equal sums are drawn together: often there are only a few kinds of them."""
    columns = np.concatenate(evidence, axis=1)
    sums = np.zeros((int(owner.max()) + 1, columns.shape[1]))
    np.add.at(sums, owner, columns)
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    if 4 * len(kinds) <= len(sums):
        drawn = np.random.default_rng(seed).multinomial(len(sums), counts / len(sums), size=DRAWS)
        found = drawn @ kinds
    else:
        found = np.concatenate([some @ sums for some in _draws(len(sums), len(sums), seed)])
    return np.stack([share(found[:, i], found[:, i + 1]) for i in range(0, found.shape[1], 2)])


def _draws(units: int, rows: int, seed: int) -> Iterator[Floats]:
    """How often each unit is drawn [some, units], in pieces that fit the cache."""
    generator = np.random.default_rng(seed)
    some = max(1, min(DRAWS, _PIECE // max(units, rows)))
    for start in range(0, DRAWS, some):
        count = min(some, DRAWS - start)
        drawn = generator.integers(units, size=(count, units), dtype=np.int32).astype(np.int64)
        drawn += np.arange(count)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=count * units)
        yield counts.reshape(count, units).astype(np.float64)
