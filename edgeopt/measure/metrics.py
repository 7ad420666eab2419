"""Metrics as pure functions of one raw run: a value with its unit, or the reason for none."""

from collections.abc import Callable, Mapping

from edgeopt.core.measurement import Value
from edgeopt.core.samples import Interval, Samples
from edgeopt.measure.raw import RawRun
from edgeopt.measure.statistics import minimum_count, upper_bound
from edgeopt.units import format_seconds

Metric = Callable[[RawRun], Value | str]


def samples(raw: RawRun) -> Samples:
    """The raw times of a run with the baseline's beside them."""
    return Samples(
        unit="s",
        blocks=raw.times("candidate"),
        baseline=raw.times("baseline"),
        rounds=raw.round_numbers,
        warmup=tuple(int(each["candidate"]["warmup"]["runs"]) for each in raw.rounds),
    )


def latency(raw: RawRun, *, baseline_s: float | None = None, identical: bool = False) -> Value:
    """Seconds of a run: the pooled baseline times the paired ratio; its interval is the ratio's.

    Args:
        raw: The run.
        baseline_s: Pooled median of the baseline over the study; None takes this run's own.
        identical: The candidate is the baseline file under the baseline's settings. The ratio
            is then known to be 1: the value is the pooled baseline itself, and the ratio that
            was measured shows as the interval what this device cannot tell apart.
    """
    found = samples(raw)
    pooled = found.baseline_median if baseline_s is None else baseline_s
    ratio = found.ratio
    note = percentile_note(raw, found, pooled / found.baseline_median)
    if identical:
        ratio = Interval(value=1.0, low=min(1.0, ratio.low), high=max(1.0, ratio.high))
        note = f"the same file beside itself; {note}"
    interval = ratio.scaled(pooled)
    return Value(value=interval.value, unit="s", interval=interval, samples=found, note=note)


def percentile_note(raw: RawRun, found: Samples, scale: float = 1.0) -> str:
    """What can be said about the 90th percentile, and where nothing can, why."""
    if raw.batched:
        return "no p90: so short that only means of batches were timed"
    bound = upper_bound([value for block in found.blocks for value in block], 0.9)
    if bound is None:
        return f"no p90: {found.count} runs, {minimum_count(0.9)} are needed"
    return f"p90 below {format_seconds(bound * scale)} ({found.count} runs, 99 % confidence)"


def size(raw: RawRun) -> Value | str:
    """Bytes of the file and its external data."""
    return Value(value=float(raw.footprint["size_bytes"]), unit="B")


def peak_memory(raw: RawRun) -> Value | str:
    """Bytes at the peak of loading and running, above the level with only the runtime loaded."""
    found = raw.footprint["peak_memory_bytes"]
    if found is None:
        return "this system does not tell a process's peak memory"
    return Value(value=float(found), unit="B")


def load(raw: RawRun) -> Value | str:
    """Seconds to open the session, runtime imported, file in the page cache."""
    return Value(value=float(raw.footprint["load_s"]), unit="s", note="1 sample")


def first_run(raw: RawRun) -> Value | str:
    """Seconds of the first inference of a session."""
    return Value(value=float(raw.footprint["first_run_s"]), unit="s", note="1 sample")


def energy(_: RawRun) -> Value | str:
    """Joules of a run: no sensor is read yet."""
    return "no power sensor"


METRICS: Mapping[str, Metric] = {
    "size": size,
    "peak_memory": peak_memory,
    "load": load,
    "first_run": first_run,
    "energy": energy,
}


def evaluate(
    raw: RawRun, *, baseline_s: float | None = None, identical: bool = False
) -> tuple[dict[str, Value], dict[str, str]]:
    """All metrics of a run: the values, and the reasons of those that are absent."""
    values = {"latency": latency(raw, baseline_s=baseline_s, identical=identical)}
    absent: dict[str, str] = {}
    for name, metric in METRICS.items():
        found = metric(raw)
        if isinstance(found, Value):
            values[name] = found
        else:
            absent[name] = found
    return values, absent
