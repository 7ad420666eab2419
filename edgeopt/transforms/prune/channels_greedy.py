"""Remove channels one after the other, each time the one that the others stand in for best.

    error of a layer  =  tr(W' C W)        C: covariance of what it reads, W: what it reads it with

Without channel j, and with the weights of the others solved anew, the error grows by
|w_j|^2 / (C^-1)_jj; then W and C^-1 are those without j, by an update of rank one ("Optimal Brain
Surgeon", Hassibi and Stork, NIPS 1993, of whole columns). Errors of all layers that read the
channels are added, each as a share of what the layer makes. Before least squares have solved the
layers anew this says little: repair what was pruned.

Must not fire on channels whose removal `channels` does not prove, nor without samples. On axes
wider than 1536 it is too slow: `channels_energy` is for those.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.base import Evidence
from edgeopt.transforms.calibration.moments import WIDEST
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders
from edgeopt.transforms.prune._elimination import Problem
from edgeopt.transforms.prune._readers import OnDemand, Reader, Readers

_LEAST_SHARE = 0.2
"""Of the units the rest are ranked as they stand: no width below is offered."""


def elimination(width: int, found: Sequence[Reader]) -> Indices:
    """All units, first to go first."""
    problems = [Problem(one, width) for one in found]
    alive = np.ones(width, np.bool_)
    order: list[int] = []
    while alive.sum() > max(1, int(_LEAST_SHARE * width)):
        costs = np.where(alive, sum(problem.costs() for problem in problems), np.inf)
        worst = int(np.argmin(costs))
        order.append(worst)
        alive[worst] = False
        for problem in problems:
            problem.remove(worst)
    costs = sum((problem.costs() for problem in problems), np.zeros(width))
    rest = np.flatnonzero(alive)
    return np.array([*order, *rest[np.argsort(costs[rest], kind="stable")]], np.int64)


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del found
    seen = Readers(model, groups, evidence, covariance=True)

    def rank(group: Group) -> Indices | None:
        usable = [one for one in seen.of(group) if one.covariance is not None]
        return elimination(group.width, usable) if usable else None

    return OnDemand(groups, rank)


def is_narrow(group: Group) -> bool:
    """Whether all that reads a group is narrow enough for its covariance."""
    return all(len(cut.labels[0]) <= WIDEST for cut in group.readers)


PLUGIN = ChannelRemoval(
    name="channels_greedy", criterion=_orders, needs_data=True, offered=is_narrow
)
