"""`open_environment`: `EdgeOpt-v0` on a user's model and device, ready to step through."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgeopt import envs
from edgeopt.api.device import open_device
from edgeopt.api.prepare import SENSITIVITY
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.envs.edgeopt_v0 import EdgeOptEnv
from edgeopt.errors import UsageError
from edgeopt.estimate.estimator import GraphEstimator
from edgeopt.search.assigned import Assigned, PlanCosts
from edgeopt.search.remembered import Remembered
from edgeopt.search.table import EstimatedTable
from edgeopt.transforms.base import Offer
from edgeopt.transforms.rewriting import Rewriting
from edgeopt.transforms.rules.catalogue import rules_on_shelves
from edgeopt.transforms.space import GraphSpace

View = Literal["plans", "graphs", "rewrites"]
ESTIMATED = ("latency_est", "size", "damage_est")


@contextlib.contextmanager
def open_environment(
    model: str | Path,
    *,
    view: View = "graphs",
    data: str | None = None,
    device: str = "local",
    store: Path | None = None,
    **options: Any,
) -> Generator[EdgeOptEnv]:
    """The environment of one model on one device, open as long as the block runs.

    Args:
        model: A file, or a name of the zoo.
        view: `graphs` rewrites, prunes and quantizes real graphs site by site, with exact figures
            as costs; `plans` sets choices and builds nothing, with estimates of this device as
            costs; `rewrites` are the exact rules alone, on a live graph.
        data: As `edgeopt run --data`; a model of the zoo brings its own.
        device: Whose profile decides what is offered.
        store: The workspace.
        options: Those of `EdgeOptEnv`.

    Raises:
        UsageError: Plans were asked for, and there is no data to estimate damage with.
        ModelError, DataError, DeviceError: What was given cannot be used.
    """
    subject = open_subject(str(model), data=data, metric=None, seed=0, progress=lambda _: None)
    with (
        Workspace.open(store) as workspace,
        open_device(device, workspace.folder / "agent") as door,
    ):
        workshop = workshop_for(subject, workspace, door.profile.opset_ceiling)
        if view == "rewrites":
            graph = workshop.normalized.clone()
            rewrites = Rewriting(graph, rules_on_shelves(), baseline=subject.model.digest)
            yield envs.make(rewrites, envs.StaticCostEvaluator(rewrites), **options)
            return
        space = GraphSpace(workshop, Offer(profile=door.profile, data=subject.data is not None))
        steps: Any = space  # its choices are a cached property, which no protocol can say
        if view == "graphs":
            yield envs.make(steps, envs.StaticCostEvaluator(steps), **options)
            return
        if subject.data is None:
            raise UsageError("plans need estimates, and there is no data", hint="give data=FILE")
        yield _plans(space, workspace.folder / SENSITIVITY, options)


def _plans(space: GraphSpace, folder: Path, options: dict[str, Any]) -> EdgeOptEnv:
    estimator = GraphEstimator(space, folder=folder)
    steps: Any = space
    remembered = Remembered(steps)
    plans = Assigned(remembered)
    plans.use(EstimatedTable(remembered, estimator).now(raw=True))
    prices = np.array([*estimator.gain.prices_us.values()])
    fingerprint = np.log2(np.maximum(prices, 1e-6) / max(float(prices[0]), 1e-6))
    given = {"fingerprint": fingerprint.tolist(), **options}
    return envs.make(plans, PlanCosts(plans, ESTIMATED), **given)
