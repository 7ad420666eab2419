"""`Policy`: a learned policy as one more source of proposals.

The surrogate's additive part becomes an assignment problem; the policy is let loose on it from
where searches begin and from the best measured plans, once for each of many preferences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.core.objective import Objective
from edgeopt.search import codes as coding
from edgeopt.search.codes import Codes
from edgeopt.search.policy import weights as stored
from edgeopt.search.policy.assignment import Assignment, bank_of, preferences, utility
from edgeopt.search.policy.network import Weights
from edgeopt.search.policy.rollout import chooser, rolled
from edgeopt.search.policy.tables import FAMILIES, Floats, Instance, Ints
from edgeopt.search.proposers import View
from edgeopt.search.table import Table

_PLANS = 32
_STEPS = 16
_SHARE = 0.3
"""Of the damage with everything on, where no bound says what may be lost."""
_LEAST = 1e-4
_OWN = ((0.9, 0.05, 0.05), (0.05, 0.05, 0.9), (0.34, 0.33, 0.33))
"""Preferences that are always asked for: the fastest, the smallest, all alike."""


@dataclass(frozen=True)
class Policy:
    """Implements `Proposer`.

    Args:
        weights: Of the network.
    """

    weights: Weights

    def __call__(self, view: View, count: int) -> list[Codes]:
        """Ends of rollouts, then what was passed on the way; nothing without a loss to trade."""
        if not view.choices or not view.objectives:
            return []
        instance = instance_of(view)
        begins = _begins(view)
        bank = bank_of([instance], [begins[0]])
        wanted = _wanted(max(count, _PLANS), view.generator)
        starts = _starts(begins, wanted, bank.shown.values(np.array(begins, np.int64)))
        greedy = np.arange(len(wanted)) % 2 == 0
        state = Assignment.begin(bank, wanted, starts, _STEPS)
        choose = chooser(self.weights, view.generator, greedy)
        passed: list[Ints] = []
        end = rolled(state, choose, passed=passed).end
        rows = [end.codes, *reversed(passed)]
        found = (tuple(int(code) for code in row) for some in rows for row in some)
        return list(dict.fromkeys(found))


def shipped(name: str) -> Policy:
    """The policy that comes with the package."""
    return Policy(stored.shipped(name).weights)


def opened(name: str, path: Path | None) -> Policy:
    """The user's policy, else the one that comes with the package.

    Raises:
        UsageError: The file cannot be used.
    """
    return shipped(name) if path is None else Policy(stored.load(path).weights)


def instance_of(view: View) -> Instance:
    """The surrogate of the moment as an instance."""
    objectives = view.objectives
    first, size = _first(objectives), _metric(objectives, "size")
    table = view.surrogate.tables([float(n == first) for n in range(len(objectives))])
    damage = padded(table.damage)
    allowed = _allowed(view, damage)
    weigh = padded(table.cost) * 0.0
    if size is not None and size != first:
        weights = [float(n == size) for n in range(len(objectives))]
        weigh = padded(view.surrogate.tables(weights).cost)
    return Instance(
        cost=padded(table.cost),
        damage=damage / allowed,
        size=weigh,
        edges=table.edges,
        counts=np.array([len(choice) for choice in view.choices], np.int64),
        families=np.array([family_of(choice.family) for choice in view.choices], np.int64),
        measured=len(view.archive.told),
    )


def family_of(name: str) -> int:
    """Index into `FAMILIES`."""
    return FAMILIES.index(name) if name in FAMILIES else len(FAMILIES) - 1


def table_of(instance: Instance) -> Table:
    """For the integer program: costs and damages of an instance."""
    width = [int(count) for count in instance.counts]
    return Table(
        cost=tuple(tuple(map(float, row[:n])) for row, n in zip(instance.cost, width, strict=True)),
        damage=tuple(
            tuple(map(float, row[:n])) for row, n in zip(instance.damage, width, strict=True)
        ),
        edges=instance.edges,
    )


def _first(objectives: Sequence[Objective]) -> int:
    """What counts as cost: the first objective that is no loss and not the size."""
    low = [n for n, each in enumerate(objectives) if each.direction == "min"]
    costs = [n for n in low if objectives[n].metric != "size"]
    return next(iter([*costs, *low]), 0)


def _metric(objectives: Sequence[Objective], name: str) -> int | None:
    return next((n for n, each in enumerate(objectives) if each.metric == name), None)


def _allowed(view: View, damage: Floats) -> float:
    limits = [
        float(limit)
        for limit, each in zip(view.surrogate.limits(), view.objectives, strict=True)
        if each.direction == "max"
    ]
    if limits and math.isfinite(limits[0]):
        return max(limits[0], _LEAST)
    return max(_SHARE * float(damage.max(axis=1).sum()), _LEAST)


def padded(rows: Sequence[Sequence[float]]) -> Floats:
    """Rows of unequal lengths as one array, zeros behind the shorter ones."""
    found = np.zeros((len(rows), max(map(len, rows))))
    for n, row in enumerate(rows):
        found[n, : len(row)] = row
    return found


def _begins(view: View) -> list[Codes]:
    """Where searches begin, then the best measured plans."""
    start = tuple(coding.starting(choice) for choice in view.choices)
    return list(dict.fromkeys([start, *view.front]))


def _wanted(count: int, generator: np.random.Generator) -> Floats:
    drawn = preferences(count - len(_OWN), generator)
    return np.concatenate([np.array(_OWN), drawn])


def _starts(begins: Sequence[Codes], wanted: Floats, values: Floats) -> Ints:
    """For every second preference the plan that is best by it, for the others the first."""
    best = utility(values[None], wanted[:, None, :]).argmax(axis=1)
    turn = np.arange(len(wanted)) // 2 % 2 == 0
    return np.array(begins, np.int64)[np.where(turn, 0, best)]
