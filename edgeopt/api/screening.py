"""What the host finds out about a built candidate before a device spends seconds on it.

Two rungs below a latency: the accuracy on a few samples, where that shows already that the bound
is missed; and what the runtime makes of the file, where the device runs this very runtime on this
machine: two recipes that it lowers to one graph under the same settings are one measurement.
"""

from collections.abc import Sequence
from dataclasses import replace

import onnx
import onnx_ir as ir

from edgeopt.api.accuracy import Accuracy, PairedAccuracy
from edgeopt.api.device import Device
from edgeopt.api.providers import CPU
from edgeopt.core import digest as digests
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Measurement, Overhead, Value
from edgeopt.core.model import Model
from edgeopt.core.trial import Trial
from edgeopt.graph.runtime import RuntimeFailure, optimized
from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.units import Drop

SAMPLES = 128
LARGEST_BYTES = 64_000_000
"""Of files that are lowered here: writing what the runtime makes of larger ones takes long."""
AS = "measured_as"
"""In a trial's environment: digest of the recipe whose lowered graph is the same."""
NOT_TIMED = "not measured: the accuracy on the first samples is beyond the bound"
_OF_THE_FILE = ("load", "first_run")


def runs_here(device: Device, runtime: RuntimeSettings) -> bool:
    """Whether a device is this interpreter's runtime on this machine, on its processor."""
    entry = device.entry
    return device.here and not entry.python and not entry.exec and runtime.provider == CPU


def lowered_name(file: Model, runtime: RuntimeSettings) -> str:
    """Identity of what the runtime here makes of a file; empty where that is not known."""
    if file.size_bytes > LARGEST_BYTES or runtime.optimization == "off":
        return ""
    try:
        model = onnx.ModelProto.FromString(file.path.read_bytes())
        made = optimized(model, runtime.optimization)
        graph = ir.from_proto(made)
        parts = (structure_digest(graph), weights_digest(graph), runtime.text)
    except (RuntimeFailure, ValueError, KeyError, TypeError):
        return ""  # says nothing about the candidate: it is measured
    return digests.of_text(" ".join(parts))


def hopeless(
    accuracy: PairedAccuracy | None, file: Model, runtime: RuntimeSettings, allowed: Drop
) -> Value | None:
    """The accuracy on the first samples, where even its upper end is beyond the bound.

    None where that is not shown, and where outputs come from the device.
    """
    if not isinstance(accuracy, Accuracy):
        return None
    # Never the whole part: scoring asks for that under another lock, and would wait for this.
    part = accuracy.data.search.take(min(SAMPLES, len(accuracy.data.search) // 2))
    if not len(part) or len(part) == len(accuracy.data.search):
        return None
    value = accuracy.value(accuracy.evidence(file.path, part, file.digest, runtime), part)
    floor = allowed.floor(accuracy.baseline(part).value)
    shown = value.interval is not None and value.interval.high < floor
    return value if shown else None


def untimed(trial: Trial, metric: str, value: Value, file: Model) -> Trial:
    """A trial of what the first samples have ruled out: its accuracy and size, no latency."""
    found = Measurement(
        values={metric: value, "size": Value(value=float(file.size_bytes), unit="B")},
        absent={"latency": NOT_TIMED},
    )
    return replace(trial, outcome=found, model_digest=file.digest)


def same_as(first: Trial, trial: Trial, file: Model) -> Trial:
    """A trial whose lowered graph was measured before, in another recipe's trial.

    What depends on the file itself is its own, or absent.
    """
    found = first.outcome
    if not isinstance(found, Measurement):
        raise ValueError("only a measurement can stand for another")
    values = {name: value for name, value in found.values.items() if name not in _OF_THE_FILE}
    values["size"] = Value(value=float(file.size_bytes), unit="B")
    absent = dict.fromkeys(_OF_THE_FILE, "measured on another file of the same lowered graph")
    return replace(
        trial,
        outcome=replace(
            found,
            values=values,
            absent={**found.absent, **absent},
            environment={**found.environment, AS: first.candidate.recipe.digest},
        ),
        model_digest=file.digest,
        device_s=0.0,
        overhead=Overhead(),
    )


def spared_time(found: Sequence[Measurement]) -> tuple[str, ...]:
    """For a report: what was not timed, and why not."""
    out = sum(one.absent.get("latency") == NOT_TIMED for one in found)
    same = sum(AS in one.environment for one in found)
    said: list[str] = []
    if out:
        said.append(f"{out} candidates were not timed: their first samples miss the accuracy bound")
    if same:
        said.append(f"{same} candidates are measured as others that the runtime makes the same of")
    return tuple(said)
