"""`edgeopt run`: a model, data and a device in; a measured Pareto front out.

    result = edgeopt.run("model.onnx", data="eval.npz", metric="top1", budget="10m")
    result.front["local"][0]["metrics"]["latency"]

This file wires; it holds no algorithm.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.api import dropped, frozen
from edgeopt.api.board_accuracy import BoardAccuracy
from edgeopt.api.board_agreement import SAMPLES as COMPARED
from edgeopt.api.device import Device, on_twin
from edgeopt.api.fleet import Meeting, run_lanes
from edgeopt.api.layers import LayerReader, layer_folder
from edgeopt.api.prepare import Ready, prepared, sample_feeds, searched
from edgeopt.api.prunable import nothing_to_prune
from edgeopt.api.report import complete, keep_context, now, read_layers, versions
from edgeopt.api.request import RunRequest
from edgeopt.api.scarce import cross_fitted
from edgeopt.api.screening import spared_time
from edgeopt.api.search import CONFIRM_SHARE, Lane
from edgeopt.api.workspace import ensure_folder
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import EdgeOptError, InconclusiveError
from edgeopt.graph.normalize import notes as normalization_notes
from edgeopt.measure.plan import QUICK
from edgeopt.report.document import ReportContext, document
from edgeopt.report.files import write_report
from edgeopt.report.terminal import terminal
from edgeopt.search.foretold import sentences
from edgeopt.transforms.space import GraphSpace
from edgeopt.units import format_seconds, parse_drop, parse_duration_s

LAYERS_SHARE = 0.1
"""Of the budget, what reading layers for the report may take on top of it."""
Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a search found.

    Args:
        document: As `edgeopt run --json` prints it.
        folder: Where the report and the front's models lie.
        text: The page that ends a run on a terminal.
        feasible: Whether any model keeps the bounds.
        interrupted: Whether it was stopped before its budget was spent.
    """

    document: Mapping[str, Any]
    folder: Path
    text: str
    feasible: bool
    interrupted: bool

    def page(self, width: int) -> str:
        """The page that ends a run, in lines of so many characters."""
        return terminal(self.document, width)

    @property
    def front(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Front members by device name."""
        return self.document["fronts"]


def run(
    model: str | Path,
    *,
    device: str = "local",
    data: str | None = None,
    metric: str | None = None,
    budget: str = "20m",
    max_drop: str = "1pt",
    progress: Progress | None = None,
    **more: Any,
) -> RunResult:
    """Search from Python; see `RunRequest` for what else can be given.

    Raises:
        EdgeOptError: See edgeopt.errors for the tree.
    """
    request = RunRequest(
        model=str(model),
        device=device,
        data=data,
        metric=metric,
        budget_s=parse_duration_s(budget),
        max_drop=parse_drop(max_drop),
        **more,
    )
    return run_request(request, progress=progress or _silent, stopped=_never)


def run_request(
    request: RunRequest, *, progress: Progress, stopped: Callable[[], bool], command: str = ""
) -> RunResult:
    """Carry a request out: prepare, search, confirm, report."""
    request = request.checked()
    with prepared(request, progress, stopped, keep=True) as ready:
        ensure_folder(_report_folder(request, ready.study))
        meeting = Meeting(open={lane.device for lane in ready.lanes})
        failed = run_lanes(
            ready.lanes, lambda lane: _search(ready, lane, meeting, progress), progress
        )
        for lane in ready.lanes:  # only now does no lane drop models any more
            lane.rebuild()
        return _finish(
            request, ready, command, failed=failed, interrupted=stopped(), progress=progress
        )


def _search(ready: Ready, lane: Lane, meeting: Meeting, progress: Progress) -> None:
    """Everything that one device does."""
    try:
        baseline = lane.baseline(
            Candidate(recipe=ready.spaces[lane.device].empty(), runtime=lane.bench.baseline_runtime)
        )
        if baseline.measurement is None:
            raise InconclusiveError(
                f"the given model could not be measured: {_why(baseline)}",
                where=lane.device,
                hint=f"see `edgeopt device check {lane.device}`; everything is compared with it",
            )
        _rebase(ready, lane, baseline)
        progress(_room(lane))
        lane.explore(lane.host.build(ready.strategies, lane.device).result())
        lane.confirm()
    finally:
        meeting.arrive(lane.device)
    if len(ready.lanes) > 1:
        meeting.wait(lane.stopped, lane.left_s())
        lane.cross(ready.exchange.finalists(lane.device))


def _rebase(ready: Ready, lane: Lane, baseline: Trial) -> None:
    """Bounds of a device whose own baseline is judged by its own outputs."""
    given = baseline.value("accuracy") or baseline.value("agreement")
    accuracy = lane.bench.accuracy
    if given is None or accuracy is None or accuracy is ready.accuracy:
        return
    # Asked now: when the report is written, the device may be away.
    ready.own_decidable[lane.device] = accuracy.decidable_drop(accuracy.data.search)
    own = ready.request.objectives_for(ready.subject.metric_name, given.value)
    ready.own_objectives[lane.device] = own
    ready.book.rebase(lane.device, searched(own))


def _room(lane: Lane) -> str:
    """How many candidates as fast as the given model the time will hold."""
    latency_s = lane.bench.baseline_latency_s or 0.0
    accuracy = lane.bench.accuracy
    samples = 0 if accuracy is None else len(accuracy.data.search)
    if isinstance(accuracy, BoardAccuracy):
        samples = min(samples, COMPARED)
    each_s = QUICK.estimate_s(latency_s, latency_s) + samples * latency_s
    count = int(lane.budget_s * (1 - CONFIRM_SHARE) / each_s)
    return f"{lane.device}: about {count} candidates will fit, {format_seconds(each_s)} each"


def plan_request(request: RunRequest, *, progress: Progress) -> Mapping[str, Any]:
    """What a run would do, without measuring: `--dry-run`."""
    request = request.checked()
    with prepared(request, progress, _never, keep=False) as ready:
        plans = [_plan(ready, device) for device in ready.devices]
        told: dict[str, Any] = {
            "schema_version": 1,
            "study": ready.study.id,
            "device": plans[0]["device"],
            "profile": plans[0]["profile"],
            "choices": plans[0]["choices"],
            "standard": plans[0]["standard"],
            "devices": plans,
            "trials": request.trials,
            "budget_s": request.budget_s,
        }
        lines = [f"study   {told['study']}"]
        for plan in plans:
            standard, choices = plan["standard"], plan["choices"].items()
            lines += [
                f"device  {plan['device']} ({plan['profile']}; {plan['runtime']})",
                f"first   {len(standard)} candidates that a user would try: {', '.join(standard)}",
                f"then    {request.strategy} over "
                + (", ".join(f"{count} {name}" for name, count in choices) or "nothing"),
            ]
        lines.append(
            f"within  {request.budget_s / 60:.1f} min"
            + ("" if request.trials is None else f" or {request.trials} candidates a device")
        )
        return {**told, "text": "\n".join(lines)}


def _plan(ready: Ready, device: Device) -> dict[str, Any]:
    space = ready.spaces[device.name]
    return {
        "device": device.name,
        "profile": device.profile.name,
        "runtime": ready.exchange.runtimes[device.name].text,
        "choices": dict(Counter(choice.family for choice in space.choices)),
        "standard": [label for label, _ in space.standard()],
    }


def _finish(
    request: RunRequest,
    ready: Ready,
    command: str,
    *,
    failed: Mapping[str, EdgeOptError],
    interrupted: bool,
    progress: Progress,
) -> RunResult:
    """Say what was found, in every format."""
    study, workspace = ready.study, ready.workspace
    folder = _report_folder(request, study)
    accuracy, data = ready.accuracy, ready.subject.data
    parts = () if data is None else (data.calibration, data.search, data.test)
    context = ReportContext(
        objectives=ready.objectives,
        objectives_of=dict(ready.own_objectives),
        decidable_drop_of=dict(ready.own_decidable),
        profiles={device.name: device.profile.title for device in ready.devices},
        peer_labels=_peers(ready.spaces.values()),
        allowed_drop=str(request.max_drop) if accuracy is not None else "",
        decidable_drop=None if accuracy is None else accuracy.decidable_drop(accuracy.data.search),
        samples={part.name: len(part) for part in parts},
        command=command,
        versions=versions(),
        created=now(),
        report=str(folder / "report.html"),
        interrupted=interrupted,
        unknown=(*_remarks(request, ready), *_of_devices(ready, failed)),
        unpruned=nothing_to_prune(
            ready.workshop.normalized,
            (choice for space in ready.spaces.values() for choice in space.choices),
            families=request.families,
            data=accuracy is not None,
        ),
    )
    trials = ready.book.trials()
    keep_context(workspace, study, context)
    whole = read_layers(
        complete(context, workspace, study, trials),
        study,
        trials,
        lambda: _layer_reader(request, ready),
        limit_s=0.0 if interrupted else min(max(LAYERS_SHARE * request.budget_s, 10.0), 60.0),
        progress=progress,
    )
    found = document(study, trials, whole)
    write_report(found, folder)
    return RunResult(
        document=found,
        folder=folder,
        text=terminal(found),
        feasible=any(found["fronts"].values()),
        interrupted=interrupted,
    )


def _layer_reader(request: RunRequest, ready: Ready) -> LayerReader:
    return LayerReader(
        workshop=ready.workshop,
        feeds=sample_feeds(request, ready.subject),
        folder=layer_folder(ready.workspace),
    )


def _report_folder(request: RunRequest, study: Study) -> Path:
    return request.out or Path("reports") / study.id


def _remarks(request: RunRequest, ready: Ready) -> tuple[str, ...]:
    """What model, data and their scarcity leave open, one sentence each."""
    remarks = list(normalization_notes(ready.workshop.normalized))
    remarks += frozen.remarks(request.freeze, ready.subject.model)
    remarks += dropped.remarks(request.drop_outputs)
    data, accuracy = ready.subject.data, ready.accuracy
    if data is None or accuracy is None:
        return (*remarks, "accuracy: no data was given, so only exact actions were searched")
    for lane in ready.lanes:
        if lane.bench.accuracy is not accuracy:
            continue  # judged by the device's own outputs, which are not here
        files = [(trial, lane.bench.file_of(trial)) for trial in lane.front().members]
        kept = [(trial, path) for trial, path in files if path.is_file()]
        head = f"{lane.device}: " if len(ready.lanes) > 1 else ""
        found = cross_fitted(accuracy, kept, request.max_drop)
        remarks += [f"{head}{remark}" for remark in found]
    return (*remarks, *data.notes)


def _of_devices(ready: Ready, failed: Mapping[str, EdgeOptError]) -> Generator[str]:
    """What each device leaves open."""
    trials = ready.book.trials()
    for lane in ready.lanes:
        mine = [t.measurement for t in trials if t.device == lane.device and t.measurement]
        twins = {found.environment["twin"] for found in mine if "twin" in found.environment}
        remarks = [*lane.bench.device.remarks, *map(on_twin, sorted(twins))]
        yield from (f"{lane.device}: {remark}" for remark in dict.fromkeys(remarks))
        if lane.device in failed:
            yield f"{lane.device}: its search ended early ({failed[lane.device].what})"
        if lane.skipped:
            reason = next(iter(lane.skipped.values()))
            yield f"{lane.device}: {len(lane.skipped)} candidates were not measured ({reason})"
        yield from (f"{lane.device}: {said}" for said in spared_time(mine))
        yield from (f"{lane.device}: {said}" for said in sentences(lane.accords))


def _peers(spaces: Iterable[GraphSpace]) -> tuple[str, ...]:
    """Labels of what a user would try without edgeopt: the runtime's levels and whole tools."""
    labels = (label for space in spaces for label, _ in space.usual() if label != "normalize")
    return tuple(dict.fromkeys(labels))


def _why(trial: Trial) -> str:
    outcome = trial.outcome
    return outcome.reason if isinstance(outcome, Failure) else "; ".join(outcome.verdict.reasons)


def _silent(_: str) -> None:
    """Progress that nobody reads."""


def _never() -> bool:
    return False
