"""`open_environment`, `open_flat_environment`: both on a user's model and device, ready to use."""

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Literal

from edgeopt import envs
from edgeopt.api.device import Device, open_device
from edgeopt.api.device_numbers import device_numbers
from edgeopt.api.foreseen import Foreseen
from edgeopt.api.measuring import MeasuredCosts, on_lane
from edgeopt.api.prepare import SENSITIVITY, prepared
from edgeopt.api.reopen import workshop_for
from edgeopt.api.request import RunRequest
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.protocols import Space
from edgeopt.envs.edgeopt_v0 import EdgeOptEnv
from edgeopt.envs.flat_v0 import EdgeOptFlatEnv, FlatReward
from edgeopt.errors import UsageError
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.search.assigned import Assigned, PlanCosts
from edgeopt.search.remembered import Remembered
from edgeopt.search.table import EstimatedTable
from edgeopt.transforms.base import Offer
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.rewriting import Rewriting
from edgeopt.transforms.rules.catalogue import rules_on_shelves
from edgeopt.transforms.space import GraphSpace

View = Literal["plans", "graphs", "rewrites"]
Costs = Literal["counted", "measured"]
VIEWS, COSTS = ("plans", "graphs", "rewrites"), ("counted", "measured")
ESTIMATED = ("latency_est", "size", "damage_est")


@contextlib.contextmanager
def open_environment(
    model: str | Path,
    *,
    view: View = "graphs",
    costs: Costs = "counted",
    data: str | None = None,
    device: str = "local",
    store: Path | None = None,
    predictions: bool = True,
    **options: Any,
) -> Generator[EdgeOptEnv]:
    """The environment of one model on one device, open as long as the block runs.

    Args:
        model: A file, or a name of the zoo.
        view: `graphs` rewrites, prunes and quantizes real graphs site by site; `plans` sets
            choices and builds nothing, with estimates of this device as costs; `rewrites` are the
            exact rules alone, on a live graph.
        costs: Of `graphs`: `counted` are exact figures of the graph, `measured` latency, size and
            accuracy on the device, some seconds a step.
        data: As `edgeopt run --data`; a model of the zoo brings its own.
        device: Whose profile decides what is offered.
        store: The workspace.
        predictions: Of `graphs`: whether groups, and what each action is predicted to change, are
            observed. One graph an alternative is built for them when the environment is opened,
            and damages are measured where they are not known: seconds to minutes.
        options: Those of `EdgeOptEnv`.

    Raises:
        UsageError: Plans were asked for, and there is no data to estimate damage with; or other
            costs than a view has.
        ModelError, DataError, DeviceError: What was given cannot be used.
    """
    _checked(view, costs)
    with contextlib.ExitStack() as stack:
        if costs == "measured":
            space, evaluator, estimator, numbers = stack.enter_context(
                _measuring(model, data, device, store)
            )
            seen = Foreseen(space, estimator) if predictions else space
            given = {"fingerprint": numbers, **options}
            yield envs.make(_steps(seen), evaluator, **given)
            return
        if view == "plans":
            plans, fingerprint = stack.enter_context(open_plans(model, data, device, store))
            given = {"fingerprint": fingerprint, **options}
            yield envs.make(plans, PlanCosts(plans, ESTIMATED), **given)
            return
        subject, workspace, door, workshop = stack.enter_context(
            _opened(model, data, device, store)
        )
        given = {"fingerprint": device_numbers(door, workspace.folder), **options}
        if view == "rewrites":
            graph = workshop.normalized.clone()
            rewrites = Rewriting(graph, rules_on_shelves(), baseline=subject.model.digest)
            yield envs.make(rewrites, envs.StaticCostEvaluator(rewrites), **given)
            return
        space = GraphSpace(workshop, Offer(profile=door.profile, data=subject.data is not None))
        estimator = GraphEstimator(space, folder=workspace.folder / SENSITIVITY)
        steps = _steps(Foreseen(space, estimator) if predictions else space)
        yield envs.make(steps, envs.StaticCostEvaluator(steps), **given)


@contextlib.contextmanager
def open_flat_environment(
    model: str | Path,
    *,
    costs: Costs = "counted",
    data: str | None = None,
    device: str = "local",
    store: Path | None = None,
    **options: Any,
) -> Generator[EdgeOptFlatEnv]:
    """`EdgeOptFlat-v0` of one model on one device, on real graphs.

    Args:
        model, data, device, store: As `open_environment`.
        costs: `counted` pays for multiplications that are saved, and knows neither energy nor
            accuracy; `measured` for latency and accuracy on the device, some seconds a step.
        options: Those of `EdgeOptFlatEnv`.

    Raises:
        UsageError: Nothing can be done to a layer of the model.
        ModelError, DataError, DeviceError: What was given cannot be used.
    """
    _checked("graphs", costs)
    with contextlib.ExitStack() as stack:
        if costs == "measured":
            space, evaluator, _, _ = stack.enter_context(_measuring(model, data, device, store))
            yield envs.make_flat(_steps(space), evaluator, **options)
            return
        subject, _, door, workshop = stack.enter_context(_opened(model, data, device, store))
        offer = Offer(profile=door.profile, data=subject.data is not None)
        steps = _steps(GraphSpace(workshop, offer))
        given = {"reward": FlatReward(latency="macs"), **options}
        yield envs.make_flat(steps, envs.StaticCostEvaluator(steps), **given)


@contextlib.contextmanager
def _opened(
    model: str | Path, data: str | None, device: str, store: Path | None
) -> Generator[tuple[Subject, Workspace, Device, Workshop]]:
    """Model, workspace, device, and what builds graphs."""
    subject = open_subject(str(model), data=data, metric=None, seed=0, progress=_silent)
    with (
        Workspace.open(store) as workspace,
        open_device(device, workspace.folder / "agent") as door,
    ):
        yield subject, workspace, door, workshop_for(subject, workspace, door.profile.opset_ceiling)


@contextlib.contextmanager
def _measuring(
    model: str | Path, data: str | None, device: str, store: Path | None
) -> Generator[tuple[GraphSpace, MeasuredCosts, GraphEstimator, tuple[float, ...]]]:
    """The space of a search of this model, costs by the bench of its device, estimates for it,
    and the device in numbers."""
    request = RunRequest(model=str(model), data=data, device=device, store=store).checked()
    with prepared(request, _silent, lambda: False, keep=False) as ready:
        lane = ready.lanes[0]
        space, folder = ready.spaces[lane.device], ready.workspace.folder
        # Not the search's own: that one has a budget, and hurries.
        estimator = GraphEstimator(space, folder=folder / SENSITIVITY)
        numbers = device_numbers(lane.bench.device, folder)
        yield space, on_lane(lane.bench, lane.reopen), estimator, numbers


def _steps(space: Any) -> Space:
    """A space as the protocol has it: its choices may be a cached property, which no protocol
    can say."""
    return space


def _checked(view: str, costs: str) -> None:
    for name, given, known in (("view", view, VIEWS), ("costs", costs, COSTS)):
        if given not in known:
            raise UsageError(f"there is no {name} {given!r}", hint=f"known: {', '.join(known)}")
    if costs == "measured" and view != "graphs":
        raise UsageError(
            f"the view {view} is never measured: it builds no model file",
            hint="take view='graphs', or leave costs out",
        )


def _silent(line: str) -> None:
    del line


@contextlib.contextmanager
def open_plans(
    model: str | Path, data: str | None, device: str, store: Path | None
) -> Generator[tuple[Assigned, Sequence[float]]]:
    """Plans over a model's space with a table of estimates, and the device in numbers.

    Raises:
        UsageError: There is no data to estimate damage with.
        ModelError, DataError, DeviceError: What was given cannot be used.
    """
    with _opened(model, data, device, store) as (subject, workspace, door, workshop):
        if subject.data is None:
            raise UsageError(
                "plans need estimates, and there is no data", where=str(model), hint="give data"
            )
        space = GraphSpace(workshop, Offer(profile=door.profile, data=True))
        estimator = GraphEstimator(space, folder=workspace.folder / SENSITIVITY)
        remembered = Remembered(_steps(space))
        plans = Assigned(remembered)
        plans.use(EstimatedTable(remembered, estimator).now(raw=True))
        yield plans, device_numbers(door, workspace.folder)
