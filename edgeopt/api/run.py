"""`edgeopt run`: a model, data and a device in; a measured Pareto front out.

    result = edgeopt.run("model.onnx", data="eval.npz", metric="top1", budget="10m")
    result.front["local"][0]["metrics"]["latency"]

This file wires; it holds no algorithm.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.device import Device, open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.report import complete, keep_context, now, versions
from edgeopt.api.request import RunRequest
from edgeopt.api.scarce import cross_fitted
from edgeopt.api.search import CONFIRM_SHARE, Search, with_pooled_baseline
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.trials import Bench
from edgeopt.api.workspace import Workspace, ensure_folder
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.front import front_of
from edgeopt.core.measurement import Failure
from edgeopt.core.protocols import Strategy
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import InconclusiveError
from edgeopt.graph.inputs import random_feeds
from edgeopt.graph.normalize import notes as normalization_notes
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import QUICK
from edgeopt.plugins import STRATEGIES
from edgeopt.report.document import ReportContext, document
from edgeopt.report.files import write_report
from edgeopt.report.terminal import terminal
from edgeopt.transforms.base import Offer
from edgeopt.transforms.replay import transform_of
from edgeopt.transforms.space import GraphSpace
from edgeopt.units import format_seconds, parse_drop, parse_duration_s

Progress = Callable[[str], None]
FEEDS = 8
"""Real inputs that the device rotates over while it measures."""


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
    with _prepared(request, progress, stopped) as prepared:
        search = prepared.search
        ensure_folder(_report_folder(request, search.study))
        if request.fresh:
            search.store.forget(search.study.id)
        search.store.save_study(search.study)
        baseline = search.baseline(
            Candidate(recipe=prepared.space.empty(), runtime=prepared.runtime)
        )
        if baseline.measurement is None:
            raise InconclusiveError(
                f"the given model could not be measured: {_why(baseline)}",
                where=request.device,
                hint="see `edgeopt doctor`; nothing can be compared without it",
            )
        search = with_pooled_baseline(search, baseline)
        progress(_room(search, prepared.accuracy))
        search.explore(prepared.strategies)
        trials = search.confirm()
        return _finish(request, prepared, search, trials, command, interrupted=stopped())


def _room(search: Search, accuracy: Accuracy | None) -> str:
    """How many candidates as fast as the given model the time will hold."""
    latency_s = search.bench.baseline_latency_s or 0.0
    samples = 0 if accuracy is None else len(accuracy.data.search)
    each_s = QUICK.estimate_s(latency_s, latency_s) + samples * latency_s
    count = int(search.budget_s * (1 - CONFIRM_SHARE) / each_s)
    return f"about {count} candidates will fit, {format_seconds(each_s)} each"


def plan_request(request: RunRequest, *, progress: Progress) -> Mapping[str, Any]:
    """What a run would do, without measuring: `--dry-run`."""
    request = request.checked()
    with _prepared(request, progress, _never) as prepared:
        choices = prepared.space.choices
        families = Counter(choice.family for choice in choices)
        standard = [label for label, _ in prepared.space.standard()]
        told: dict[str, Any] = {
            "schema_version": 1,
            "study": prepared.search.study.id,
            "device": prepared.device.name,
            "profile": prepared.device.profile.name,
            "choices": dict(families),
            "standard": standard,
            "trials": request.trials,
            "budget_s": request.budget_s,
        }
        lines = [
            f"study   {told['study']}",
            f"device  {told['device']} ({told['profile']})",
            f"first   {len(standard)} candidates that a user would try: {', '.join(standard)}",
            f"then    {request.strategy} over "
            + (", ".join(f"{count} {name}" for name, count in families.items()) or "nothing"),
            f"within  {request.budget_s / 60:.1f} min"
            + ("" if request.trials is None else f" or {request.trials} candidates"),
        ]
        return {**told, "text": "\n".join(lines)}


def _finish(
    request: RunRequest,
    prepared: "_Prepared",
    search: Search,
    trials: Sequence[Trial],
    command: str,
    *,
    interrupted: bool,
) -> RunResult:
    """Say what was found, in every format."""
    study, workspace = search.study, search.bench.workspace
    folder = _report_folder(request, study)
    accuracy, data = prepared.accuracy, prepared.subject.data
    parts = () if data is None else (data.calibration, data.search, data.test)
    context = ReportContext(
        objectives=search.objectives,
        peer_labels=_peers(prepared.space),
        allowed_drop=str(request.max_drop) if accuracy is not None else "",
        decidable_drop=None if accuracy is None else accuracy.decidable_drop(accuracy.data.search),
        samples={part.name: len(part) for part in parts},
        command=command,
        versions=versions(),
        created=now(),
        report=str(folder / "report.html"),
        interrupted=interrupted,
        unknown=_remarks(request, prepared, search, trials),
    )
    keep_context(workspace, study, context)
    found = document(study, trials, complete(context, workspace, study, trials))
    write_report(found, folder)
    members = found["fronts"][prepared.device.name]
    return RunResult(
        document=found,
        folder=folder,
        text=terminal(found),
        feasible=bool(members),
        interrupted=interrupted,
    )


def _report_folder(request: RunRequest, study: Study) -> Path:
    return request.out or Path("reports") / study.id


def _remarks(
    request: RunRequest, prepared: "_Prepared", search: Search, trials: Sequence[Trial]
) -> tuple[str, ...]:
    """What model, data and their scarcity leave open, one sentence each."""
    remarks = list(normalization_notes(prepared.space.workshop.normalized))
    data, accuracy = prepared.subject.data, prepared.accuracy
    if data is None or accuracy is None:
        return (*remarks, "accuracy: no data was given, so only exact actions were searched")
    front = front_of(trials, search.objectives, prepared.device.name)
    files = [(trial, search.bench.file_of(trial)) for trial in front.members]
    kept = [(trial, path) for trial, path in files if path.is_file()]
    return (*remarks, *data.notes, *cross_fitted(accuracy, kept, request.max_drop))


def _peers(space: GraphSpace) -> tuple[str, ...]:
    """Labels of what a user would try without edgeopt: the runtime's levels and whole tools."""
    return tuple(
        label
        for label, candidate in space.standard()
        if not candidate.is_default
        and label != "normalize"
        and all(transform_of(a.transform)[1].whole_model for a in candidate.recipe.actions)
    )


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    subject: Subject
    device: Device
    space: GraphSpace
    search: Search
    strategies: Sequence[tuple[str, Strategy]]
    accuracy: Accuracy | None
    runtime: RuntimeSettings


@contextlib.contextmanager
def _prepared(
    request: RunRequest, progress: Progress, stopped: Callable[[], bool]
) -> Generator[_Prepared]:
    """Everything that a search needs, opened; nothing has been measured yet."""
    subject = open_subject(
        request.model,
        data=request.data,
        metric=request.metric,
        seed=request.seed,
        progress=progress,
    )
    runtime = RuntimeSettings(threads=request.threads)
    accuracy = Accuracy(subject, runtime) if subject.data is not None else None
    if accuracy is not None:
        progress(f"checking the given model on {len(accuracy.data.search)} samples")
        accuracy.refuse_chance()
    with contextlib.ExitStack() as stack:
        workspace = stack.enter_context(Workspace.open(request.store))
        device = stack.enter_context(open_device(request.device, workspace.folder / "agent"))
        space = _space(request, subject, workspace, device)
        search = _search(
            request, subject, workspace, device, space, accuracy, runtime, progress, stopped
        )
        strategies = [
            (name, STRATEGIES.load(name)(space, seed=request.seed, objectives=search.objectives))
            for name in dict.fromkeys(("static", request.strategy))
        ]
        yield _Prepared(
            subject=subject,
            device=device,
            space=space,
            search=search,
            strategies=strategies,
            accuracy=accuracy,
            runtime=runtime,
        )


def _space(
    request: RunRequest, subject: Subject, workspace: Workspace, device: Device
) -> GraphSpace:
    data = subject.data
    feed = _feeds(request, subject)[0]
    workshop = workshop_for(subject, workspace, device.profile.opset_ceiling, feed)
    offer = Offer(profile=device.profile, data=data is not None, contrib=request.contrib)
    runtime = RuntimeSettings(threads=request.threads)
    return GraphSpace(workshop, offer, families=request.families, runtime=runtime)


def _feeds(request: RunRequest, subject: Subject) -> Sequence[Feed]:
    """Real inputs where there are any, else random ones."""
    if subject.data is not None:
        return [subject.data.search.feeds[i] for i in range(min(FEEDS, len(subject.data.search)))]
    return random_feeds(subject.model, FEEDS, shapes=request.shapes, seed=request.seed)


def _search(
    request: RunRequest,
    subject: Subject,
    workspace: Workspace,
    device: Device,
    space: GraphSpace,
    accuracy: Accuracy | None,
    runtime: RuntimeSettings,
    progress: Progress,
    stopped: Callable[[], bool],
) -> Search:
    base = None if accuracy is None else accuracy.baseline(accuracy.data.search).value
    objectives = request.objectives_for(subject.metric_name, base)
    study = Study(
        model_name=subject.name,
        baseline=subject.model.digest,
        data="" if subject.data is None else subject.data.digest,
        metric=subject.metric_name,
        objectives=objectives,
        devices=(device.name,),
        strategy=request.strategy,
        seed=request.seed,
        options={
            "fingerprint": device.fingerprint,
            "runtime": runtime.text,
            "families": ",".join(request.families),
            "operators": "any" if request.contrib else "onnx",
            "shapes": str(sorted(request.shapes.items())) if request.shapes else "",
        },
        origin={
            "model": str(subject.model.path.resolve()),
            "data": subject.data_spec,
            "seed": str(request.seed),
            "opset_ceiling": str(device.profile.opset_ceiling),
        },
    )
    feeds = workspace.folder / "feeds" / f"{study.id}.npz"
    ensure_folder(feeds.parent)
    write_feeds(_feeds(request, subject), feeds)
    bench = Bench(
        study=study.id,
        model=subject.model,
        workspace=workspace,
        workshop=space.workshop,
        device=device,
        feeds=feeds,
        accuracy=accuracy,
        baseline_runtime=runtime,
        allowed_drop=request.max_drop,
        skip_slow=bool(objectives) and objectives[0].metric == "latency",
    )
    return Search(
        study=study,
        store=workspace.trials,
        bench=bench,
        objectives=objectives,
        budget_s=request.budget_s,
        trials=request.trials,
        progress=progress,
        stopped=stopped,
    )


def _why(trial: Trial) -> str:
    outcome = trial.outcome
    return outcome.reason if isinstance(outcome, Failure) else "; ".join(outcome.verdict.reasons)


def _silent(_: str) -> None:
    """Progress that nobody reads."""


def _never() -> bool:
    return False
