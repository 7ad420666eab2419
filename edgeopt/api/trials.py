"""One candidate to one trial: build, verify, measure, score. Failures are results."""

import contextlib
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeopt.api import screening, shifts
from edgeopt.api.accuracy import PairedAccuracy
from edgeopt.api.costs import learn_costs
from edgeopt.api.device import Device
from edgeopt.api.emulated import warnings_of
from edgeopt.api.workspace import Workspace
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.data import Part
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.model import Model
from edgeopt.core.trial import Trial
from edgeopt.errors import DataError, ModelError, WrongOutputError
from edgeopt.graph.lowered import lowered
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.graph.write import write_model
from edgeopt.measure.energy import METRICS as ENERGY
from edgeopt.measure.energy import PACED, comparable, energy_plan
from edgeopt.measure.plan import Protocol
from edgeopt.measure.plan import protocol as protocol_of
from edgeopt.measure.runner import Outcome, measure
from edgeopt.report.points import HOST_DIFFERENCE
from edgeopt.transforms.replay import ActionRejected, Built, Workshop
from edgeopt.units import Drop

MUCH_SLOWER = 2.0
NOT_SCORED = "not scored: shown to take at least twice the given model's time"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A candidate as it can be measured, or why it cannot.

    Args:
        asked: Digest of the recipe that was asked for: the name of the file.
        candidate: With the recipe that was built, its artifacts filled in.
        built: The graph.
        file: The model's file; the user's own for the baseline.
        failure: Why there is none.
        host_s: Seconds that it took.
        lowered: Identity of what the runtime makes of it; empty where that is not known.
        hopeless: The accuracy on a few samples, where that rules the candidate out.
    """

    asked: str
    candidate: Candidate
    built: Built | None = None
    file: Model | None = None
    failure: Failure | None = None
    host_s: float = 0.0
    lowered: str = ""
    hopeless: Value | None = None


def _never(_: Trial) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Everything that turns a candidate into a trial on one device.

    Args:
        study: Id under which built models are kept.
        model: The user's file.
        workshop: Builds graphs from recipes.
        device: Where to measure.
        feeds: Real inputs for the device, as the agent reads them.
        accuracy: None without data.
        baseline_runtime: Settings of the baseline beside every candidate.
        allowed_drop: How much accuracy may be lost, on the shift probes too.
        skip_slow: Whether what was shown to be twice as slow is not scored. The usual ways in vain
            (dynamic int8 of a CNN takes ten times as long) would use up the time of a search.
        baseline_latency_s: Pooled baseline; None until it was measured.
        quiet: Held while the device works on a candidate.
        rate_hz: Inferences a second that the user needs; None measures no paced latency.
        wait_s: How long to wait for an idle device before a measurement.
        energy: Whether energy is measured, where the protocol has a pass for it.
        given: Environment of the baseline: energy of another sensor is not compared with its.
    """

    study: str
    model: Model
    workspace: Workspace
    workshop: Workshop
    device: Device
    feeds: Path
    accuracy: PairedAccuracy | None
    baseline_runtime: RuntimeSettings
    allowed_drop: Drop
    skip_slow: bool = True
    baseline_latency_s: float | None = None
    quiet: AbstractContextManager[Any] | None = None
    rate_hz: float | None = None
    wait_s: float = 0.0
    energy: bool = True
    given: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def sensors(self) -> tuple[str, ...]:
        """The profile's sensors by preference."""
        return tuple(sensor.name for sensor in self.device.profile.sensors)

    def on(self, device: Device, accuracy: PairedAccuracy | None) -> "Bench":
        """The same bench at a device that was opened again."""
        return replace(self, device=device, accuracy=accuracy, quiet=device.board)

    def prepared(self, candidate: Candidate) -> "Prepared":
        """Build, verify and write a candidate: the host's part before a measurement."""
        start, asked = time.monotonic(), candidate.recipe.digest
        made = self.build(candidate)
        spent_s = time.monotonic() - start
        if isinstance(made, Failure):
            return Prepared(asked=asked, candidate=candidate, failure=made, host_s=spent_s)
        built, file = made
        same = replace(candidate, recipe=built.recipe)
        return Prepared(asked=asked, candidate=same, built=built, file=file, host_s=spent_s)

    def screened(self, candidate: Candidate, *, judged: bool) -> "Prepared":
        """The same, and what the host can say of it before the device is asked.

        Args:
            judged: Whether its accuracy on a few samples may rule it out.
        """
        start, made = time.monotonic(), self.prepared(candidate)
        file, runtime = made.file, made.candidate.runtime
        if file is None or made.candidate.is_baseline:
            return made
        lowered = screening.lowered_name(file, runtime) if self._runs_here(runtime) else ""
        hopeless = None
        if judged:
            with contextlib.suppress(RuntimeFailure, DataError):  # said when it is measured
                hopeless = screening.hopeless(self.accuracy, file, runtime, self.allowed_drop)
        spent_s = time.monotonic() - start
        return replace(made, lowered=lowered, hopeless=hopeless, host_s=spent_s)

    def _runs_here(self, runtime: RuntimeSettings) -> bool:
        return screening.runs_here(self.device, runtime)

    def ruled_out(
        self, prepared: "Prepared", protocol: Protocol, *, strategy: str, label: str = ""
    ) -> Trial:
        """The trial of a candidate that `screened` ruled out. The number is 0."""
        if prepared.hopeless is None or prepared.file is None:
            raise ValueError("it was not ruled out")
        trial = self._begun(prepared, protocol, strategy, label)
        return screening.untimed(trial, self._accuracy_name, prepared.hopeless, prepared.file)

    def repeated(
        self, first: Trial, prepared: "Prepared", *, strategy: str, label: str = ""
    ) -> Trial:
        """The trial of a candidate whose lowered graph another trial measured. The number is 0."""
        if prepared.file is None:
            raise ValueError("nothing was built")
        trial = self._begun(prepared, protocol_of(first.protocol), strategy, label)
        return screening.same_as(first, trial, prepared.file)

    def _begun(self, prepared: "Prepared", protocol: Protocol, strategy: str, label: str) -> Trial:
        """A trial of which nothing is known yet but what was built."""
        return Trial(
            number=0,
            candidate=prepared.candidate,
            device=self.device.name,
            protocol=protocol.name,
            strategy=strategy,
            label=label,
            outcome=Failure(stage="build", reason=""),
            model_digest="" if prepared.file is None else prepared.file.digest,
            host_s=prepared.host_s,
        )

    def measured(self, prepared: "Prepared", protocol: Protocol) -> Outcome | Failure:
        """The device's part: nothing of it needs the graph.

        Raises:
            DeviceError: The device fails; the candidate may be measured again.
        """
        candidate, file = prepared.candidate, prepared.file
        if prepared.failure is not None or file is None:
            return prepared.failure or Failure(stage="build", reason="nothing was built")
        return measure(
            self.device.target,
            baseline=self.model.path,
            candidate=file.path,
            feeds=self.feeds,
            settings=candidate.runtime,
            baseline_settings=self.baseline_runtime,
            protocol=protocol,
            identical=candidate.is_baseline and candidate.runtime == self.baseline_runtime,
            baseline_latency_s=self.baseline_latency_s,
            quiet=self.quiet,
            rate_hz=self.rate_hz,
            wait_s=self.wait_s,
            energy=energy_plan(protocol.name, sensors=self.sensors) if self.energy else None,
        )

    def concluded(
        self,
        prepared: "Prepared",
        outcome: Outcome | Failure,
        protocol: Protocol,
        *,
        strategy: str,
        label: str = "",
        complete: bool = False,
        promising: Callable[[Trial], bool] = _never,
    ) -> Trial:
        """Score what was measured: the host's part after a measurement. The number is 0.

        Args:
            complete: Also score the test part and the shift probes.
            promising: Whether shifted search samples are worth a look too.
        """
        start = time.monotonic()
        file, built = prepared.file, prepared.built
        trial = self._begun(prepared, protocol, strategy, label)
        if isinstance(outcome, Failure) or built is None or file is None:
            failed = outcome if isinstance(outcome, Failure) else Failure(stage="build", reason="")
            return replace(
                trial, outcome=failed, device_s=failed.device_s, overhead=failed.overhead
            )
        trial = replace(trial, device_s=outcome.device_s, overhead=outcome.overhead)
        learn_costs(self.workspace.folder, self.device, trial, outcome)
        found = self._measurement(outcome, built, prepared.candidate.runtime)
        if self.skip_slow and not complete and _much_slower(outcome):
            absent = {**found.absent, self._accuracy_name: NOT_SCORED}
            return replace(trial, outcome=replace(found, absent=absent))
        scored = self._score(file, prepared.candidate, complete=complete)
        found = replace(found, environment={**found.environment, **self._against_host(prepared)})
        result: Measurement | Failure = (
            scored if isinstance(scored, Failure) else _with_values(found, scored)
        )
        if complete and isinstance(result, Measurement):
            result = shifts.judged(self.accuracy, result, self.allowed_drop)
        elif isinstance(result, Measurement) and promising(replace(trial, outcome=result)):
            result = shifts.guarded(
                self.accuracy, file, prepared.candidate.runtime, result, self.allowed_drop
            )
        host_s = prepared.host_s + time.monotonic() - start
        return replace(trial, outcome=result, host_s=host_s)

    @property
    def _accuracy_name(self) -> str:
        agreement = self.accuracy is not None and self.accuracy.name == "agreement"
        return "agreement" if agreement else "accuracy"

    def file_of(self, trial: Trial) -> Path:
        """Where a trial's model lies while it is kept; the user's own file for the baseline."""
        if trial.candidate.is_baseline:
            return self.model.path
        return self.workspace.model_path(self.study, trial.candidate.recipe.digest)

    def build(self, candidate: Candidate) -> tuple[Built, Model] | Failure:
        """The candidate's graph and file, verified; the user's own file for the empty recipe."""
        try:
            built = self.workshop.build(candidate.recipe)
            if candidate.is_baseline:
                return built, self.model
            self.workshop.verify(built)
            path = self.workspace.model_path(self.study, candidate.recipe.digest)
            return built, write_model(built.graph, path)
        except ActionRejected as error:
            return Failure(stage="build", reason=error.what)
        except WrongOutputError as error:
            return Failure(stage="verify", reason=str(error))
        except (RuntimeFailure, ModelError) as error:
            return Failure(stage="load", reason=error.what)

    def _against_host(self, prepared: Prepared) -> Mapping[str, str]:
        """How a scored model's outputs differ on the device, where they were compared."""
        if self.accuracy is None or prepared.file is None:
            return {}
        said = self.accuracy.agreement_with_host(prepared.file.digest, prepared.candidate.runtime)
        return {HOST_DIFFERENCE: said} if said else {}

    def _measurement(self, outcome: Outcome, built: Built, runtime: RuntimeSettings) -> Measurement:
        values, absent = dict(outcome.values), dict(outcome.absent)
        why = comparable(outcome.environment, self.given) if "energy_scope" in self.given else ""
        for name in (*ENERGY, PACED):
            if why and values.pop(name, None) is not None:
                absent[name] = why
        read = None if outcome.profile is None else lowered(outcome.profile, built.graph)
        if read is not None:
            hidden = warnings_of(self.workshop, built, self.device.profile, runtime)
            read = replace(read, traps=(*hidden, *read.traps))
        return Measurement(
            values=values,
            absent=absent,
            verdict=outcome.verdict,
            environment={**outcome.environment, **_circumstances(self.device)},
            lowered=read,
        )

    def _score(
        self, file: Model, candidate: Candidate, *, complete: bool
    ) -> Mapping[str, Value] | Failure:
        if self.accuracy is None:
            return {}
        data, name = self.accuracy.data, self._accuracy_name
        parts: list[tuple[str, Part]] = [(name, data.search)]
        if complete:
            parts.append((f"{name}_test", data.test))
            parts += [(f"{name}@{probe.name}", probe) for probe in self.accuracy.probes]
        try:
            return {key: self._value(file, part, candidate) for key, part in parts}
        except (RuntimeFailure, DataError) as error:
            return Failure(stage="accuracy", reason=error.what)

    def _value(self, file: Model, part: Part, candidate: Candidate) -> Value:
        accuracy = self.accuracy
        if accuracy is None:
            raise ValueError("accuracy needs data")
        settings = candidate.runtime
        if candidate.is_baseline and settings == self.baseline_runtime:
            scored = accuracy.baseline(part)
        else:
            scored = accuracy.evidence(file.path, part, file.digest, settings)
        return accuracy.value(scored, part)


def _circumstances(device: Device) -> Mapping[str, str]:
    """What a reader of a device's numbers must know about it."""
    told = {"profile": device.profile.name}
    if device.facts.get("machine_kind") == "emulated":
        told["time"] = "emulated"
    if device.twin:
        told["twin"] = device.twin
    return told


def _much_slower(outcome: Outcome) -> bool:
    """Whether it was shown to take at least twice the baseline's time."""
    latency = outcome.values.get("latency")
    if latency is None or latency.samples is None or not latency.samples.baseline:
        return False
    return latency.samples.ratio.low > MUCH_SLOWER


def _with_values(found: Measurement, more: Mapping[str, Value]) -> Measurement:
    return replace(found, values={**found.values, **more})
