"""Percentiles of a latency: upper bounds that hold with 99 % confidence, or why there is none."""

from collections.abc import Sequence

from edgeopt.core.measurement import Value
from edgeopt.measure.statistics import minimum_count, upper_bound
from edgeopt.units import format_seconds

BATCHED = "so short that only means of batches were timed"


def bound(values: Sequence[float], quantile: float, *, batched: bool, scale: float) -> Value | str:
    """What the quantile lies below, times the scale, in seconds; or why that cannot be said."""
    if batched:
        return BATCHED
    found = upper_bound(values, quantile)
    if found is None:
        return f"{len(values)} runs, {minimum_count(quantile)} are needed"
    return Value(
        value=found * scale,
        unit="s",
        note=f"upper bound, 99 % confidence, {len(values)} runs",
    )


def note(
    values: Sequence[float], quantiles: Sequence[float], *, batched: bool, scale: float = 1.0
) -> str:
    """What can be said about the percentiles, in one line."""
    if batched:
        return f"no {name_of(quantiles[0])}: {BATCHED}"
    words: list[str] = []
    for quantile in quantiles:
        found = bound(values, quantile, batched=batched, scale=scale)
        if isinstance(found, str):
            words.append(f"no {name_of(quantile)}: {found}")
        else:
            words.append(f"{name_of(quantile)} below {format_seconds(found.value)}")
    return f"{', '.join(words)} ({len(values)} runs, 99 % confidence)"


def name_of(quantile: float) -> str:
    """`p90`, `p99`."""
    return f"p{quantile * 100:g}"
