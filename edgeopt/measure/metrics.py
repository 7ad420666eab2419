"""Metrics as pure functions of one raw run: a value with its unit, or the reason for none."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgeopt.core.measurement import Value
from edgeopt.core.samples import Interval, Samples
from edgeopt.measure import tails
from edgeopt.measure.raw import RawRun
from edgeopt.measure.statistics import median_interval
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


def latency(
    raw: RawRun,
    *,
    baseline_s: float | None = None,
    identical: bool = False,
    quantiles: Sequence[float] = (0.9,),
) -> Value:
    """Seconds of a run: the pooled baseline times the paired ratio; its interval is the ratio's.

    Args:
        raw: The run.
        baseline_s: Pooled median of the baseline over the study; None takes this run's own.
        identical: The candidate is the baseline file under the baseline's settings. The ratio
            is then known to be 1: the value is the pooled baseline itself, and the ratio that
            was measured shows as the interval what this device cannot tell apart.
        quantiles: What the note speaks of.
    """
    found = samples(raw)
    pooled = found.baseline_median if baseline_s is None else baseline_s
    ratio = found.ratio
    scale = pooled / found.baseline_median
    note = tails.note(_single(found), quantiles, batched=raw.batched, scale=scale)
    if identical:
        ratio = Interval(value=1.0, low=min(1.0, ratio.low), high=max(1.0, ratio.high))
        note = f"the same file beside itself; {note}"
    interval = ratio.scaled(pooled)
    return Value(value=interval.value, unit="s", interval=interval, samples=found, note=note)


def percentiles(
    raw: RawRun, quantiles: Sequence[float], *, baseline_s: float | None = None
) -> dict[str, Value | str]:
    """`latency_p90` and the like: upper bounds in seconds, or why there is none.

    Scaled like the latency, by the pooled baseline over the one beside.
    """
    found = samples(raw)
    scale = 1.0 if baseline_s is None else baseline_s / found.baseline_median
    return {
        f"latency_{tails.name_of(quantile)}": tails.bound(
            _single(found), quantile, batched=raw.batched, scale=scale
        )
        for quantile in quantiles
    }


def _single(found: Samples) -> list[float]:
    return [value for block in found.blocks for value in block]


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
    """Seconds to open the session: runtime imported, file in the page cache, engine built."""
    return _once(raw.fresh("load_s"))


def first_run(raw: RawRun) -> Value | str:
    """Seconds of the first inference of a session."""
    return _once(raw.fresh("first_run_s"))


def _once(found: Sequence[float]) -> Value:
    """What a process does once: the median over fresh processes, an interval from three on."""
    if len(found) == 1:
        return Value(value=found[0], unit="s", note="1 sample")
    return Value(
        value=float(np.median(found)),
        unit="s",
        interval=median_interval(found),
        note=f"median of {len(found)} fresh processes",
    )


def engine(raw: RawRun) -> dict[str, Value | str]:
    """`build` (s) and `engine_size` (B) of a provider that compiles; empty where none did.

    An engine is built once and kept by the content of the model: where this run found it there,
    the build of another day is told as such, and not as a value of this run.
    """
    made: Mapping[str, Any] | None = raw.footprint.get("engine")
    if made is None:
        return {}
    seconds = [
        float(each)
        for reply in (raw.footprint, *(each["candidate"] for each in raw.rounds))
        for each in reply.get("build_s") or ()
    ]
    found: dict[str, Value | str] = {"engine_size": Value(value=float(made["bytes"]), unit="B")}
    if seconds:
        found["build"] = _once(seconds)
    else:
        then = format_seconds(float(made["build_s"]))
        found["build"] = f"the engine was kept from an earlier build, which took {then}"
    if not made.get("reused", True):
        found["engine_size"] = "the runtime does not take the engine that it kept: it builds anew"
    return found


METRICS: Mapping[str, Metric] = {
    "size": size,
    "peak_memory": peak_memory,
    "load": load,
    "first_run": first_run,
}


def evaluate(
    raw: RawRun,
    *,
    baseline_s: float | None = None,
    identical: bool = False,
    quantiles: Sequence[float] = (),
) -> tuple[dict[str, Value], dict[str, str]]:
    """All metrics of a run: the values, and the reasons of those that are absent.

    Args:
        quantiles: Percentiles of the latency that are values of their own.
    """
    told = {"quantiles": quantiles} if quantiles else {}
    found: dict[str, Value | str] = {
        "latency": latency(raw, baseline_s=baseline_s, identical=identical, **told)
    }
    found |= percentiles(raw, quantiles, baseline_s=baseline_s)
    found |= {name: metric(raw) for name, metric in METRICS.items()}
    found |= engine(raw)
    values = {name: value for name, value in found.items() if isinstance(value, Value)}
    return values, {name: why for name, why in found.items() if isinstance(why, str)}
