"""What inference at the user's rate costs: latency from the period's start, missed periods."""

from collections.abc import Mapping
from typing import Any

from edgeopt.core.measurement import Value
from edgeopt.core.samples import Samples
from edgeopt.measure import tails
from edgeopt.measure.raw import Side
from edgeopt.measure.statistics import share_interval
from edgeopt.units import format_seconds


def paced_values(pace: Mapping[str, Any], rate_hz: float) -> dict[str, Value]:
    """`paced_latency` (s) and `deadline_misses` (share) of a reply of `pace`."""
    found = Samples(
        unit="s",
        blocks=_times(pace, "candidate"),
        baseline=_times(pace, "baseline"),
        rounds=tuple(0 for _ in pace["candidate"]["blocks"]),
        warmup=(int(pace["candidate"]["warmup"]["runs"]),),
    )
    interval = found.ratio.scaled(found.baseline_median)
    single = [value for block in found.blocks for value in block]
    cpu = " against the baseline's ".join(
        format_seconds(_cpu_s(pace, side)) for side in ("candidate", "baseline")
    )
    latency = Value(
        value=interval.value,
        unit="s",
        interval=interval,
        samples=found,
        note=f"at {rate_hz:g}/s, waiting included; {tails.note(single, (0.9,), batched=False)}; "
        f"{cpu} of processor time an inference",
    )
    missed, periods = _missed(pace, "candidate")
    theirs, of = _missed(pace, "baseline")
    misses = Value(
        value=missed / periods,
        unit="1",
        interval=share_interval(missed, periods),
        note=f"{missed} of {periods} periods at {rate_hz:g}/s; the baseline {theirs} of {of}",
    )
    return {"paced_latency": latency, "deadline_misses": misses}


def _times(pace: Mapping[str, Any], side: Side) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, block["times_s"])) for block in pace[side]["blocks"])


def _cpu_s(pace: Mapping[str, Any], side: Side) -> float:
    """Processor seconds an inference: what spins between two of them counts."""
    blocks = pace[side]["blocks"]
    return sum(b["cpu_s"] for b in blocks) / sum(len(b["times_s"]) for b in blocks)


def _missed(pace: Mapping[str, Any], side: Side) -> tuple[int, int]:
    blocks = pace[side]["blocks"]
    return sum(int(b["missed"]) for b in blocks), sum(int(b["periods"]) for b in blocks)
