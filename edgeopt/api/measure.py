"""`edgeopt measure`: one measurement with its statistics and verdict, no search around it."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.device import Device, open_device
from edgeopt.api.measured import Known, MeasuredStore
from edgeopt.api.noise import NoiseFloor, known_floor
from edgeopt.api.prepare import FEEDS
from edgeopt.api.providers import choose_provider
from edgeopt.api.subject import Progress, Subject, open_model, open_subject
from edgeopt.api.workspace import Workspace, ensure_folder
from edgeopt.core import digest as digests
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.codec import encode
from edgeopt.core.measurement import Failure, Value, Verdict
from edgeopt.core.model import Model
from edgeopt.errors import InconclusiveError, StorageError
from edgeopt.graph.inputs import random_feeds
from edgeopt.measure.energy import EnergyPlan, energy_plan
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import Protocol
from edgeopt.measure.plan import protocol as protocol_named
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.bundle import agent_bundle
from edgeopt.units import format_age, format_value


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """What `edgeopt measure` is asked.

    Args:
        model: An ONNX file, or a name of the zoo.
        device: By name.
        data: Spec of the data; None takes random inputs, and measures no accuracy.
        against: Another model with the same inputs; None puts the model beside itself.
        protocol: `quick`, `normal`, `publish`.
        shapes: Of inputs with free dimensions.
        threads: Of the runtime.
        wait_s: How long to wait for an idle machine.
        rate_hz: Inferences a second that are needed; None measures no paced latency.
        energy: Whether energy is measured, where the protocol has a pass for it.
        fresh: Measure although the result is known.
        store: Workspace; None is the usual one.
    """

    model: str
    device: str = "local"
    data: str | None = None
    against: str | None = None
    protocol: str = "normal"
    shapes: Mapping[str, tuple[int, ...]]
    threads: int = 1
    wait_s: float = 0.0
    rate_hz: float | None = None
    energy: bool = True
    fresh: bool = False
    store: Path | None = None


def measure_model(request: MeasureRequest, progress: Progress) -> dict[str, Any]:
    """Measure a model beside itself, or beside another one with the same inputs.

    An equal question on a device of the same fingerprint is answered from the workspace.

    Raises:
        EdgeOptError: What was given cannot be used, or the device does not answer.
        InconclusiveError: The model does not load or run there.
    """
    rung = protocol_named(request.protocol)
    name, opened, zoo_data = open_model(request.model, progress)
    beside = opened if request.against is None else open_model(request.against, progress)[1]
    spec = request.data or zoo_data
    subject = Subject(name=name, model=opened, data=None, metric_name="", metric=None)
    if spec is not None:
        subject = open_subject(request.model, data=spec, metric=None, seed=0, progress=progress)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace.open(request.store))
        agent = workspace.folder / "agent"
        device = stack.enter_context(open_device(request.device, agent))
        settings = settings_on(device, request.threads)
        floor = known_floor(device.fingerprint, rung.name, settings.text)
        job = _Job(
            request=request,
            device=device,
            model=opened,
            beside=beside,
            feeds=_feeds(request, subject, spec, workspace),
            settings=settings,
            rung=rung,
            energy=_energy(request, device),
            agent=agent_bundle(agent).name,
        )
        store = MeasuredStore(folder=workspace.folder / "measured")
        known = None if request.fresh else store.find(job.key)
        outcome = job.measured(store, progress) if known is None else known.outcome
    absent = dict(outcome.absent)
    if not request.energy:
        absent["energy"] = "not measured: it was not asked for"
    values = {**outcome.values, **_accuracy(subject, RuntimeSettings(threads=request.threads))}
    told: dict[str, Any] = {
        "schema_version": 1,
        "model": str(opened.path),
        "device": request.device,
        "protocol": rung.name,
        "runtime": settings.text,
        "inputs": "random" if subject.data is None else "real",
        "age_s": 0.0 if known is None else known.age_s,
        "values": {key: encode(value) for key, value in values.items()},
        "absent": absent,
        "verdict": encode(outcome.verdict),
        "noise_floor": None if floor is None else encode(floor),
        "below_noise_floor": _below(outcome, floor) if request.against else None,
        "environment": dict(outcome.environment),
    }
    text = _text(told, values, outcome.verdict, request.against, known)
    if floor is not None and request.against:
        below = "below" if told["below_noise_floor"] else "above"
        text += f"\n  the difference is {below} this device's noise floor of {floor.text}"
    return {**told, "text": text}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One measurement: what it is made of, and by what it is found again."""

    request: MeasureRequest
    device: Device
    model: Model
    beside: Model
    feeds: Path
    settings: RuntimeSettings
    rung: Protocol
    energy: EnergyPlan | None
    agent: str

    @property
    def key(self) -> Mapping[str, Any]:
        """Everything that the result depends on. Waiting changes when, not what."""
        return {
            "model": self.model.digest,
            "beside": self.beside.digest,
            "feeds": digests.of_file(self.feeds),
            "runtime": self.settings.text,
            "protocol": encode(self.rung),
            "rate_hz": self.request.rate_hz,
            "energy": encode(self.energy),
            "meter": [self.device.entry.meter, self.device.entry.meter_scope],
            "identical": self.request.against is None,
            "fingerprint": self.device.fingerprint,
            "agent": self.agent,
        }

    def measured(self, store: MeasuredStore, progress: Progress) -> Outcome:
        """Measure now, and keep what may be used; what cannot be kept is told all the same."""
        outcome = measure(
            self.device.target,
            baseline=self.beside.path,
            candidate=self.model.path,
            feeds=self.feeds,
            settings=self.settings,
            baseline_settings=self.settings,
            protocol=self.rung,
            identical=self.request.against is None,
            wait_s=self.request.wait_s,
            rate_hz=self.request.rate_hz,
            energy=self.energy,
        )
        if isinstance(outcome, Failure):
            where = f"{self.request.model} on {self.request.device}"
            raise InconclusiveError(outcome.reason, where=where)
        try:
            store.keep(self.key, outcome)
        except StorageError as error:
            progress(f"this result is not kept: {error}")
        return outcome


def settings_on(device: Device, threads: int = 1) -> RuntimeSettings:
    """What sessions on a device are opened with where nobody searches."""
    chosen = choose_provider(device.entry, device.profile, device.facts)
    return RuntimeSettings(provider=chosen.provider, threads=threads, options=dict(chosen.options))


def _below(outcome: Outcome, floor: NoiseFloor | None) -> bool | None:
    """Whether the difference is below the device's noise floor; None where that is not known."""
    latency = outcome.values.get("latency")
    if floor is None or latency is None or latency.samples is None:
        return None
    return abs(latency.samples.ratio.value - 1) < floor.floor


def _energy(request: MeasureRequest, device: Device) -> EnergyPlan | None:
    names = [sensor.name for sensor in device.profile.sensors]
    return energy_plan(request.protocol, sensors=names) if request.energy else None


def _feeds(
    request: MeasureRequest, subject: Subject, spec: str | None, workspace: Workspace
) -> Path:
    """The inputs as the agent reads them: real ones where there is data."""
    shapes, model = request.shapes, subject.model
    stem = digests.short(digests.of_text(f"{model.digest}{spec}{sorted(shapes.items())}"))
    path = workspace.folder / "feeds" / f"measure-{stem}.npz"
    ensure_folder(path.parent)
    if subject.data is None:
        write_feeds(random_feeds(model, FEEDS, shapes=shapes), path)
    else:
        count = min(FEEDS, len(subject.data.search))
        write_feeds([subject.data.search.feeds[i] for i in range(count)], path)
    return path


def _accuracy(subject: Subject, settings: RuntimeSettings) -> Mapping[str, Value]:
    """On the host, by the reference provider."""
    if subject.data is None:
        return {}
    accuracy = Accuracy(subject, settings)
    parts = (("accuracy", subject.data.search), ("accuracy_test", subject.data.test))
    return {key: accuracy.value(accuracy.baseline(part), part) for key, part in parts}


def _text(
    told: Mapping[str, Any],
    values: Mapping[str, Value],
    verdict: Verdict,
    against: str | None,
    known: Known | None,
) -> str:
    lines = [f"{told['model']} on {told['device']} ({told['protocol']}, {told['inputs']} inputs)"]
    if known is not None:
        ago = format_age(known.age_s)
        lines.append(f"  measured {ago} ago on this device; --fresh measures again")
    for name, value in values.items():
        shown = format_value(value.value, value.unit)
        lines.append(f"  {name:<15} {shown:>12}  {_bounds(value)}  {value.note}")
    latency = values.get("latency")
    if latency is not None and latency.samples is not None:
        ratio = latency.samples.ratio
        beside = against or "itself"
        lines.append(
            f"  ratio to {beside}: {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], "
            f"{latency.samples.count} runs in {latency.samples.fresh_rounds} processes"
        )
    lines += [f"  {name:<15} {'absent':>12}  {why}" for name, why in told["absent"].items()]
    reasons = f": {'; '.join(verdict.reasons)}" if verdict.reasons else ""
    return "\n".join([*lines, f"  verdict: {verdict.status}{reasons}"])


def _bounds(value: Value) -> str:
    if value.interval is None:
        return ""
    low, high = (format_value(v, value.unit) for v in (value.interval.low, value.interval.high))
    return f"[{low}, {high}]"
