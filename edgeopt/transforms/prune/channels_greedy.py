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
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.transforms.base import Evidence
from edgeopt.transforms.calibration.moments import WIDEST
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders
from edgeopt.transforms.prune._readers import Reader, readers

_RIDGE = 1e-3
"""Of the mean variance: samples are few."""
_LEAST_SHARE = 0.2
"""Of the units the rest are ranked as they stand: no width below is offered."""

Floats = npt.NDArray[np.float64]


class _Problem:
    """One layer that reads the channels, and what is left of them."""

    def __init__(self, reader: Reader) -> None:
        assert reader.covariance is not None, "the caller looked"
        assert reader.products is not None, "they are there together"
        size = len(reader.units)
        ridge = _RIDGE * max(float(np.trace(reader.covariance)) / size, 1e-30)
        self.units = reader.units
        self.inverse = np.linalg.inv(reader.covariance + ridge * np.eye(size))
        self.products = reader.products.copy()
        made = float((reader.covariance * reader.products).sum())
        self.share = 1 / max(made, 1e-30)
        self.single = len(np.unique(self.units)) == size

    def costs(self, count: int) -> Floats:
        """What the removal of each unit adds to the error [units]."""
        found = np.zeros(count)
        if self.single:
            found[self.units] = np.diag(self.products) / np.diag(self.inverse)
        else:
            for unit in np.unique(self.units):
                at = np.flatnonzero(self.units == unit)
                block = np.ix_(at, at)
                found[unit] = np.trace(np.linalg.solve(self.inverse[block], self.products[block]))
        return found * self.share

    def remove(self, unit: int) -> None:
        """Solve anew without a unit."""
        at = np.flatnonzero(self.units == unit)
        if not len(at):
            return
        gain = self.inverse[:, at] @ np.linalg.inv(self.inverse[np.ix_(at, at)])
        rows = self.products[at].copy()
        moved = gain @ rows
        self.products += gain @ rows[:, at] @ gain.T - moved - moved.T
        self.inverse -= gain @ self.inverse[at]
        left = np.flatnonzero(self.units != unit)
        self.units = self.units[left]
        self.products = self.products[np.ix_(left, left)]
        self.inverse = self.inverse[np.ix_(left, left)]


def elimination(width: int, found: Sequence[Reader]) -> Indices:
    """All units, first to go first."""
    problems = [_Problem(one) for one in found]
    alive = np.ones(width, np.bool_)
    order: list[int] = []
    while alive.sum() > max(1, int(_LEAST_SHARE * width)):
        costs = np.where(alive, sum(problem.costs(width) for problem in problems), np.inf)
        worst = int(np.argmin(costs))
        order.append(worst)
        alive[worst] = False
        for problem in problems:
            problem.remove(worst)
    costs = sum((problem.costs(width) for problem in problems), np.zeros(width))
    rest = np.flatnonzero(alive)
    return np.array([*order, *rest[np.argsort(costs[rest], kind="stable")]], np.int64)


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del found
    orders: dict[str, Indices] = {}
    for group, listed in readers(model, groups, evidence, covariance=True):
        usable = [one for one in listed if one.covariance is not None]
        if usable:
            orders[group.name] = elimination(group.width, usable)
    return orders


def is_narrow(group: Group) -> bool:
    """Whether all that reads a group is narrow enough for its covariance."""
    return all(len(cut.labels[0]) <= WIDEST for cut in group.readers)


PLUGIN = ChannelRemoval(
    name="channels_greedy", criterion=_orders, needs_data=True, offered=is_narrow
)
