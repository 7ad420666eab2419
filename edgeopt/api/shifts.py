"""What shifted samples say of a candidate: the probes in the end, search samples on the way.

A search that sees plain samples alone ends with a front that the probes then refuse: integers and
narrow layers lose little on clean images and ten points on blurred ones.
"""

from dataclasses import replace

from edgeopt.api.accuracy import Accuracy, PairedAccuracy
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure, Measurement, Value, Verdict
from edgeopt.core.model import Model
from edgeopt.core.samples import Interval
from edgeopt.errors import DataError
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.units import Drop

UNDER = "on search under "
"""How the note of an accuracy begins that is what a shift left."""


def judged(
    accuracy: PairedAccuracy | None, found: Measurement, allowed: Drop
) -> Measurement | Failure:
    """A failure where a shift probe loses beyond the bound; a miss on the test part is flagged.

    The test part never selects: its miss is said, and the verdict stays.
    """
    if accuracy is None:
        return found
    parts = {f"@{probe.name}": probe for probe in accuracy.probes}
    parts["_test"] = accuracy.data.test
    verdict = found.verdict
    for key, value in found.values.items():
        for suffix, part in parts.items():
            base = accuracy.baseline(part).value
            if not key.endswith(suffix) or not _beyond(value, base, allowed):
                continue
            loss = _loss(key, value, base)
            if suffix != "_test":
                return Failure(stage="shift", reason=f"{loss}{_speed(found)}")
            verdict = verdict & Verdict(reasons=(loss,))
    return replace(found, verdict=verdict)


def guarded(
    accuracy: PairedAccuracy | None,
    file: Model,
    runtime: RuntimeSettings,
    found: Measurement,
    allowed: Drop,
) -> Measurement:
    """The measurement with the accuracy that is left under a shift, where that misses the bound.

    The given model's accuracy less what is lost on shifted search samples: a number that the
    search can learn from, with the reason in its verdict. Only where the host computes outputs.

    Args:
        accuracy: None without data.
        file: The built model.
        runtime: Of its session.
        found: What was measured, with the accuracy on plain samples.
        allowed: The bound.
    """
    name = next((name for name in ("accuracy", "agreement") if name in found.values), "")
    if not isinstance(accuracy, Accuracy) or not name:
        return found
    given, plain = accuracy.baseline(accuracy.data.search).value, found.values[name]
    for guard in accuracy.guards:
        try:
            value = accuracy.value(accuracy.evidence(file.path, guard, file.digest, runtime), guard)
        except (RuntimeFailure, DataError):
            return found  # said where it is confirmed
        base = accuracy.baseline(guard).value
        if not _beyond(value, base, allowed) or given - (base - value.value) >= plain.value:
            continue
        loss = _loss(f"{name} on {guard.name}", value, base)
        left = replace(_moved(value, given - base), note=f"on {guard.name}")
        return replace(
            found,
            values={**found.values, name: left},
            verdict=found.verdict & Verdict(reasons=(loss,)),
        )
    return found


def _moved(value: Value, by: float) -> Value:
    span = value.interval
    if span is not None:
        span = Interval(value=span.value + by, low=span.low + by, high=span.high + by)
    return Value(value=value.value + by, unit=value.unit, interval=span)


def _loss(key: str, value: Value, base: float) -> str:
    return (
        f"{key} is {100 * (base - value.value):.1f} points below the given model's "
        f"{100 * base:.1f} %"
    )


def _speed(found: Measurement) -> str:
    """What a refused candidate would have brought, for a reader who can mend the shift."""
    latency = found.values.get("latency")
    if latency is None or latency.samples is None or not latency.samples.baseline:
        return ""
    ratio = latency.samples.ratio
    return f" (time ratio {ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}])"


def _beyond(value: Value, baseline: float, allowed: Drop) -> bool:
    """Whether the drop is larger than allowed and larger than chance explains."""
    beyond = value.value < allowed.floor(baseline)
    return beyond and value.interval is not None and value.interval.high < baseline
