"""What a difference in accuracy means: intervals, the smallest decidable drop, lost and won.

Samples of one group are not independent, so groups are resampled whole; candidate and baseline
are judged on the same draws, since it is their difference that is asked for.
"""

import numpy as np

from edgeopt.core.protocols import AccuracyMetric
from edgeopt.core.samples import Interval
from edgeopt.data.accuracy_metric import Disturbed, Suspects
from edgeopt.data.evaluate import Scored
from edgeopt.data.resample import Floats, Integers, resampled, units_of
from edgeopt.errors import DataError

_Z = 1.959964
_STEPS, _COPIES, _FEW = 7, 4, 150


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
    units, owner = units_of(baseline.groups)
    if units < 2:
        return Interval(value=centre, low=-np.inf, high=np.inf)
    pair = (baseline.evidence, candidate.evidence)
    values = np.diff(resampled(metric, pair, owner, seed=seed), axis=0)[0]
    low, high = np.nanquantile(values, (0.025, 0.975)) - centre
    widen = _widening(units)
    return Interval(
        value=centre,
        low=centre + min(float(low), 0.0) * widen,
        high=centre + max(float(high), 0.0) * widen,
    )


def standard_error(metric: AccuracyMetric, scored: Scored, *, seed: int = 0) -> float:
    """Standard error of the value, by the same bootstrap; infinite for a single group."""
    units, owner = units_of(scored.groups)
    if units < 2:
        return float("inf")
    values = resampled(metric, (scored.evidence,), owner, seed=seed)[0]
    return float(np.nanstd(values, ddof=1)) * _widening(units)


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

    Where a metric ranks rows (AUC), a candidate's ranks follow the baseline's far more closely
    than r = 0.5. There the drop is found by simulation: ranks are disturbed by normal noise, half
    of it common to a group, of the smallest size whose drop its own paired interval decides. So it
    is where a metric compares values with the baseline's own, which leave no error at all.
    """
    units, owner = units_of(baseline.groups)
    error = standard_error(metric, baseline)
    if not np.isfinite(error):
        return float("inf")
    if isinstance(metric, Disturbed):
        simulated = _simulated_drop(metric, baseline.evidence, owner)
        return min(_Z * error, simulated) if error else simulated
    whole = bool(np.isin(baseline.right[~np.isnan(baseline.right)], (0, 1)).all())
    floor = _Z**2 / (units + _Z**2) if whole or error == 0 else 0.0
    return max(_Z * error, floor)


def _simulated_drop(metric: AccuracyMetric, evidence: Floats, owner: Integers) -> float:
    """The drop at the smallest disturbance (0.1 % to 100 % of all ranks) that is decided."""
    low, high, found = np.log(1e-3), 0.0, np.inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        drop, error = _under_disturbance(metric, evidence, owner, float(np.exp(middle)))
        if drop > _Z * error:
            high, found = middle, drop
        else:
            low = middle
    return float(found)


def _under_disturbance(
    metric: AccuracyMetric, evidence: Floats, owner: Integers, amount: float
) -> tuple[float, float]:
    """Mean drop and its standard error over some disturbances of one size."""
    if not isinstance(metric, Disturbed):
        raise TypeError("only metrics that can be disturbed are")
    generator = np.random.default_rng(0)
    units = int(owner.max()) + 1
    models = [evidence]
    for _ in range(_COPIES):
        common, own = generator.normal(size=units)[owner], generator.normal(size=len(owner))
        models.append(metric.disturbed(evidence, amount * (common + own) / np.sqrt(2)))
    values = resampled(metric, models, owner, draws=_FEW)
    drops: Floats = values[0] - values[1:]
    spread: Floats = np.nanstd(drops, axis=1, ddof=1)
    error = float(np.sqrt(np.mean(spread**2))) * _widening(units)
    return metric.value(evidence) - float(np.mean([metric.value(m) for m in models[1:]])), error


def _widening(units: int) -> float:
    """The percentile bootstrap over m units is too narrow by sqrt((m - 1) / m)."""
    return float(np.sqrt(units / (units - 1)))


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
