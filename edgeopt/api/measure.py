"""`edgeopt measure`: one measurement with its statistics and verdict, no search around it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.device import open_device
from edgeopt.api.run import FEEDS
from edgeopt.api.subject import Progress, Subject, open_model, open_subject
from edgeopt.api.workspace import Workspace, ensure_folder
from edgeopt.core import digest as digests
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.codec import encode
from edgeopt.core.measurement import Failure, Value
from edgeopt.errors import InconclusiveError
from edgeopt.graph.inputs import random_feeds
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import protocol as protocol_named
from edgeopt.measure.runner import Outcome, measure
from edgeopt.units import format_value


def measure_model(
    model: str,
    *,
    device: str,
    data: str | None,
    against: str | None,
    protocol: str,
    shapes: Mapping[str, tuple[int, ...]],
    threads: int,
    store: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    """Measure a model beside itself, or beside another one with the same inputs.

    Raises:
        EdgeOptError: What was given cannot be used, or the device does not answer.
        InconclusiveError: The model does not load or run there.
    """
    rung = protocol_named(protocol)
    name, opened, zoo_data = open_model(model, progress)
    beside = opened if against is None else open_model(against, progress)[1]
    spec = data or zoo_data
    subject = Subject(name=name, model=opened, data=None, metric_name="", metric=None)
    if spec is not None:
        subject = open_subject(model, data=spec, metric=None, seed=0, progress=progress)
    settings = RuntimeSettings(threads=threads)
    with (
        Workspace.open(store) as workspace,
        open_device(device, workspace.folder / "agent") as door,
    ):
        stem = digests.short(digests.of_text(f"{opened.digest}{spec}{sorted(shapes.items())}"))
        feeds = workspace.folder / "feeds" / f"measure-{stem}.npz"
        ensure_folder(feeds.parent)
        if subject.data is None:
            write_feeds(random_feeds(opened, FEEDS, shapes=shapes), feeds)
        else:
            count = min(FEEDS, len(subject.data.search))
            write_feeds([subject.data.search.feeds[i] for i in range(count)], feeds)
        outcome = measure(
            door.target,
            baseline=beside.path,
            candidate=opened.path,
            feeds=feeds,
            settings=settings,
            baseline_settings=settings,
            protocol=rung,
            identical=against is None,
        )
    if isinstance(outcome, Failure):
        raise InconclusiveError(outcome.reason, where=f"{model} on {device}")
    values = {**outcome.values, **_accuracy(subject, settings)}
    told: dict[str, Any] = {
        "schema_version": 1,
        "model": str(opened.path),
        "device": device,
        "protocol": rung.name,
        "inputs": "random" if subject.data is None else "real",
        "values": {key: encode(value) for key, value in values.items()},
        "absent": dict(outcome.absent),
        "verdict": encode(outcome.verdict),
        "environment": dict(outcome.environment),
    }
    return {**told, "text": _text(told, values, outcome, against)}


def _accuracy(subject: Subject, settings: RuntimeSettings) -> Mapping[str, Value]:
    if subject.data is None:
        return {}
    accuracy = Accuracy(subject, settings)
    parts = (("accuracy", subject.data.search), ("accuracy_test", subject.data.test))
    return {key: accuracy.value(accuracy.baseline(part), part) for key, part in parts}


def _text(
    told: Mapping[str, Any], values: Mapping[str, Value], outcome: Outcome, against: str | None
) -> str:
    lines = [f"{told['model']} on {told['device']} ({told['protocol']}, {told['inputs']} inputs)"]
    for name, value in values.items():
        shown = format_value(value.value, value.unit)
        lines.append(f"  {name:<14} {shown:>12}  {_bounds(value)}  {value.note}")
    latency = values.get("latency")
    if latency is not None and latency.samples is not None:
        ratio = latency.samples.ratio
        beside = against or "itself"
        lines.append(
            f"  ratio to {beside}: {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], "
            f"{latency.samples.count} runs in {latency.samples.fresh_rounds} processes"
        )
    lines += [f"  {name:<14} {'absent':>12}  {why}" for name, why in outcome.absent.items()]
    reasons = f": {'; '.join(outcome.verdict.reasons)}" if outcome.verdict.reasons else ""
    return "\n".join([*lines, f"  verdict: {outcome.verdict.status}{reasons}"])


def _bounds(value: Value) -> str:
    if value.interval is None:
        return ""
    low, high = (format_value(v, value.unit) for v in (value.interval.low, value.interval.high))
    return f"[{low}, {high}]"
