"""Everything that a search needs, opened: nothing has been measured yet."""

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from edgeopt.api import dropped, frozen
from edgeopt.api.accuracy import Accuracy, PairedAccuracy
from edgeopt.api.board_accuracy import BoardAccuracy
from edgeopt.api.book import TrialBook
from edgeopt.api.device import Boards, Device, Door
from edgeopt.api.fleet import CROSS_SHARE, Exchange
from edgeopt.api.host import Host
from edgeopt.api.providers import CPU, alternatives, usual_runtimes
from edgeopt.api.reopen import workshop_for
from edgeopt.api.request import RunRequest, best_installed
from edgeopt.api.search import Lane
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.trials import Bench
from edgeopt.api.workspace import Workspace, ensure_folder
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, Strategy
from edgeopt.core.study import Study
from edgeopt.errors import ConnectionLostError
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.measure.feeds import write_feeds
from edgeopt.plugins import STRATEGIES
from edgeopt.search.released import Released
from edgeopt.search.trained import Trained
from edgeopt.targets.devices import resolve
from edgeopt.transforms.base import Offer
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace

SENSITIVITY = "sensitivity"
"""Folder of the workspace for the damages of single decisions."""
_SENSITIVITY_SHARE, _SPARE_SHARE = 0.1, 1 / 6
"""Of a study's time, and of what is left beside confirming: what finding damages may take, and
what decoding alternatives may. Both, and looking at what was decoded, come before any answer."""
FEEDS = 8
"""Real inputs that the device rotates over while it measures."""
_DISTIL_SHARE, _DISTIL_MOST_S = 0.25, 300.0
"""Of a study's time what one training may take. One of minutes brings back what three short ones
do not; `trained` asks for another only where there is time beside what confirming takes."""
_TRAINING_SHARE = 0.7
"""Of the time that is left: the rest is for measuring what was trained."""

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A search that can begin.

    Args:
        own_objectives, own_decidable: Bounds and smallest decidable drops of devices that are
            judged by their own outputs; filled in when their baselines are known.
    """

    request: RunRequest
    subject: Subject
    workspace: Workspace
    workshop: Workshop
    study: Study
    objectives: tuple[Objective, ...]
    accuracy: Accuracy | None
    book: TrialBook
    exchange: Exchange
    devices: Sequence[Device]
    spaces: Mapping[str, GraphSpace]
    lanes: Sequence[Lane]
    estimators: Mapping[str, GraphEstimator]
    own_objectives: dict[str, tuple[Objective, ...]] = field(
        default_factory=dict[str, tuple[Objective, ...]]
    )
    own_decidable: dict[str, float] = field(default_factory=dict[str, float])

    def strategies(self, device: str) -> list[tuple[str, Strategy]]:
        """New strategies for a device, by name; made when the bounds of its front are known."""
        objectives, estimator = self.book.objectives(device), self.estimators[device]
        found: list[tuple[str, Strategy]] = [
            (
                name,
                STRATEGIES.load(name)(
                    self.spaces[device],
                    seed=self.request.seed,
                    objectives=objectives,
                    estimator=estimator,
                    **_policy(self.request, name),
                ),
            )
            for name in _strategies(self.request)
        ]
        space = self.spaces[device]
        # To who reads it a cached property is a property, but not to the type checker.
        released = Released(cast("Space", space), objectives, estimator.noises)
        found.insert(1, ("released", released))
        if not space.training_s:
            return found
        lane = next(lane for lane in self.lanes if lane.device == device)
        trained = Trained(
            space.trained,
            objectives,
            estimator,
            price_s=space.training_s,
            spare_s=lambda: _TRAINING_SHARE * lane.spare_s(),
        )
        # Who names a strategy or brings a policy wants to see it at work, not minutes of training.
        usual = self.request.strategy == best_installed() and self.request.policy is None
        place = 2 if usual else 3
        return [*found[:place], ("trained", trained), *found[place:]]


@contextlib.contextmanager
def prepared(
    request: RunRequest, progress: Progress, stopped: Callable[[], bool], *, keep: bool
) -> Generator[Ready]:
    """Open model, data, workspace and devices, and wire the searches.

    Args:
        keep: Whether the study is claimed and kept; False for a plan, which changes nothing.

    Raises:
        EdgeOptError: What was asked for cannot be opened.
    """
    for name in request.devices:
        resolve(name, project=Path.cwd())  # a wrong name is said before the data is scored
    subject = open_subject(
        request.model,
        data=request.data,
        metric=request.metric,
        seed=request.seed,
        progress=progress,
    )
    frozen.refuse_unfit(request.freeze, subject, request.shapes)
    dropped.refuse_unfit(request.drop_outputs, subject)
    host_runtime = RuntimeSettings(threads=request.threads)
    accuracy = Accuracy(subject, host_runtime) if subject.data is not None else None
    if accuracy is not None:
        progress(f"checking the given model on {len(accuracy.data.search)} samples")
        accuracy.refuse_chance()
        dropped.refuse_read(request.drop_outputs, accuracy)
    with contextlib.ExitStack() as stack:
        workspace = stack.enter_context(Workspace.open(request.store))
        boards = Boards(progress)
        doors: dict[str, Door] = {}
        for name in request.devices:
            door = Door(name, workspace.folder / "agent", boards, progress, stopped)
            stack.callback(door.close)
            doors[name] = door
        yield _wired(
            request, subject, workspace, accuracy, doors, stack, progress, stopped, keep=keep
        )


def _wired(
    request: RunRequest,
    subject: Subject,
    workspace: Workspace,
    accuracy: Accuracy | None,
    doors: Mapping[str, Door],
    stack: contextlib.ExitStack,
    progress: Progress,
    stopped: Callable[[], bool],
    *,
    keep: bool,
) -> Ready:
    devices = [door.device for door in doors.values()]
    runtimes = {device.name: _runtime(request, device) for device in devices}
    feeds = sample_feeds(request, subject)
    ceiling = min(device.profile.opset_ceiling for device in devices)
    lanes: list[Lane] = []

    def patience_s() -> float:
        return _TRAINING_SHARE * min(lane.spare_s() for lane in lanes)

    workshop = workshop_for(
        subject, workspace, ceiling, feeds[0], progress=progress, patience_s=patience_s
    )
    base = None if accuracy is None else accuracy.baseline(accuracy.data.search).value
    objectives = request.objectives_for(subject.metric_name, base)
    study = _study(request, subject, objectives, devices, runtimes, ceiling)
    if keep:
        if request.fresh:
            workspace.trials.forget(study.id)
        workspace.trials.save_study(study)
    guiding = searched(objectives)
    book = TrialBook(workspace, study.id, {device.name: guiding for device in devices})
    exchange = Exchange(book=book, runtimes=runtimes)
    guard = _guard(devices)
    host = stack.enter_context(Host(guard))
    if accuracy is not None and guard is not None:
        accuracy.guard = guard
    samples = workspace.folder / "feeds" / f"{study.id}.npz"
    ensure_folder(samples.parent)
    write_feeds(feeds, samples)
    spaces: dict[str, GraphSpace] = {}
    for name, door in doors.items():
        device = door.device
        spaces[name] = GraphSpace(
            workshop,
            Offer(
                profile=device.profile,
                data=subject.data is not None,
                contrib=request.contrib,
                freeze=frozen.shapes(request.freeze, subject.model),
                values=frozen.values(request.freeze, subject.model),
                drop_outputs=frozenset(request.drop_outputs),
                distil_s=min(_DISTIL_SHARE * request.budget_s, _DISTIL_MOST_S),
            ),
            families=request.families,
            runtime=runtimes[name],
            runtimes=_alternatives(request, device, runtimes[name]),
            usual=usual_runtimes(runtimes[name], device.profile),
        )
        bench = Bench(
            study=study.id,
            model=subject.model,
            workspace=workspace,
            workshop=workshop,
            device=device,
            feeds=samples,
            accuracy=_accuracy_on(device, accuracy, workspace, runtimes[name]),
            baseline_runtime=runtimes[name],
            allowed_drop=request.max_drop,
            skip_slow=bool(objectives) and objectives[0].metric == "latency",
            quiet=device.board,
            rate_hz=request.rate_hz,
            wait_s=request.wait_s,
            energy="energy" in request.objectives,
        )

        def reopen(
            old: Bench, left_s: float, error: ConnectionLostError, door: Door = door
        ) -> Bench:
            again = door.reopened(left_s, error)
            return old.on(again, _accuracy_on(again, accuracy, workspace, old.baseline_runtime))

        lanes.append(
            Lane(
                bench=bench,
                book=book,
                host=host,
                budget_s=request.budget_s,
                trials=request.trials,
                progress=progress,
                stopped=stopped,
                reopen=reopen,
            )
        )
    if len(lanes) > 1:
        for lane in lanes:
            lane.spared = exchange.spared(lane.device)
            lane.offered = exchange.offered(lane.device)
            lane.reserve_s = CROSS_SHARE * request.budget_s
    estimators = {
        lane.device: GraphEstimator(
            spaces[lane.device], folder=workspace.folder / SENSITIVITY, patience_s=_patience(lane)
        )
        for lane in lanes
    }
    return Ready(
        request=request,
        subject=subject,
        workspace=workspace,
        workshop=workshop,
        study=study,
        objectives=objectives,
        accuracy=accuracy,
        book=book,
        exchange=exchange,
        devices=devices,
        spaces=spaces,
        lanes=lanes,
        estimators=estimators,
    )


def _patience(lane: Lane) -> Callable[[], float]:
    """How long a part of a question may take, asked when it is put."""

    def seconds() -> float:
        share_s = _SENSITIVITY_SHARE * lane.budget_s
        return max(min(share_s, _SPARE_SHARE * lane.spare_s()), 0.0)

    return seconds


def _runtime(request: RunRequest, device: Device) -> RuntimeSettings:
    """How the given model is run on a device."""
    provider, options, _ = device.provider
    return RuntimeSettings(provider=provider, threads=request.threads, options=options)


def searched(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """What guides a search: the quick rung has no energy, and all trials must have a value."""
    known = tuple(each for each in objectives if each.metric != "energy")
    return known or (Objective(metric="latency"),)


def _alternatives(
    request: RunRequest, device: Device, own: RuntimeSettings
) -> Sequence[RuntimeSettings]:
    return alternatives(device.profile, device.facts, own) if request.tune else ()


def _strategies(request: RunRequest) -> tuple[str, ...]:
    more = ("runtime",) if request.tune else ()
    return tuple(dict.fromkeys(("static", request.strategy, *more)))


def _policy(request: RunRequest, strategy: str) -> dict[str, Path]:
    """The user's policy, for the strategy that was asked for."""
    return {"policy": request.policy} if request.policy and strategy == request.strategy else {}


def _accuracy_on(
    device: Device, accuracy: Accuracy | None, workspace: Workspace, runtime: RuntimeSettings
) -> PairedAccuracy | None:
    """The host's accuracy where the device is this interpreter on this machine, else its own."""
    same = device.here and not device.entry.python and not device.entry.exec
    if accuracy is None or (same and runtime.provider == CPU):
        return accuracy
    if device.entry.kind == "replay":
        return accuracy
    folder = workspace.folder / "samples"
    ensure_folder(folder)
    return BoardAccuracy(accuracy, device.target, folder, runtime, quiet=device.board)


def _guard(devices: Sequence[Device]) -> contextlib.AbstractContextManager[object] | None:
    """The lock of this machine's own board, where a device is on it: work here disturbs it."""
    here = [device for device in devices if device.here or device.entry.kind == "local"]
    return here[0].board if here else None


def sample_feeds(request: RunRequest, subject: Subject) -> Sequence[Feed]:
    """Real inputs where there are any, else random ones."""
    if subject.data is not None:
        return [subject.data.search.feeds[i] for i in range(min(FEEDS, len(subject.data.search)))]
    return frozen.without_data(
        subject.model, FEEDS, request.freeze, shapes=request.shapes, seed=request.seed
    )


def _study(
    request: RunRequest,
    subject: Subject,
    objectives: tuple[Objective, ...],
    devices: Sequence[Device],
    runtimes: Mapping[str, RuntimeSettings],
    ceiling: int,
) -> Study:
    return Study(
        model_name=subject.name,
        baseline=subject.model.digest,
        data="" if subject.data is None else subject.data.digest,
        metric=subject.metric_name,
        objectives=objectives,
        devices=tuple(device.name for device in devices),
        strategy=request.strategy,
        seed=request.seed,
        options={
            "fingerprint": ",".join(device.fingerprint for device in devices),
            "runtime": ",".join(runtimes[device.name].text for device in devices),
            **({"tuned": "runtime"} if request.tune else {}),
            **({"freeze": "\n".join(frozen.texts(request.freeze))} if request.freeze else {}),
            **({"drop": "\n".join(request.drop_outputs)} if request.drop_outputs else {}),
            **({"rate": f"{request.rate_hz:g}/s"} if request.rate_hz else {}),
            "families": ",".join(request.families),
            "operators": "any" if request.contrib else "onnx",
            "shapes": str(sorted(request.shapes.items())) if request.shapes else "",
        },
        origin={
            "model": str(subject.model.path.resolve()),
            "data": subject.data_spec,
            "seed": str(request.seed),
            "opset_ceiling": str(ceiling),
        },
    )
