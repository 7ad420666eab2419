"""Where proposals come from: rows that may be worth a measurement, before anything selects.

Each takes the search as it stands and gives rows, known ones too; nothing is marked as asked for.
A learned policy is one more of them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Choice
from edgeopt.core.front import non_dominated
from edgeopt.core.objective import Objective
from edgeopt.search import codes as coding
from edgeopt.search.archive import Archive
from edgeopt.search.codes import Codes
from edgeopt.search.genetic import load_mating
from edgeopt.search.ladder_rungs import rungs
from edgeopt.search.program import best
from edgeopt.search.surrogate import Surrogate

Floats = npt.NDArray[np.float64]
_BUDGETS = (1.0, 0.6, 0.3, 1.5, 0.1)
"""Of a plan's predicted drop, as shares of what is allowed."""
_SHARES = (0.3, 1.0, 0.1, 0.03)
"""And as shares of the drop with everything on, where nothing is bounded."""
_SIZES = (0.0, 0.3, 1.0)
"""Weights of size and memory beside a weight of 1 for the first objective."""
_PARENTS = 4
_POPULATION = 24
_PLANS = 4


@dataclass(frozen=True)
class View:
    """A search as it stands.

    Args:
        choices, objectives: Of the search.
        archive: What was told.
        surrogate: Refitted to it.
        generator: Of everything that is drawn.
    """

    choices: tuple[Choice, ...]
    objectives: tuple[Objective, ...]
    archive: Archive
    surrogate: Surrogate
    generator: np.random.Generator

    @cached_property
    def measured(self) -> tuple[tuple[Codes, ...], Floats]:
        """Rows with all values, and their relative costs [rows, objectives]."""
        found = {row: self.surrogate.relative(trial) for row, trial in self.archive.told.items()}
        rows = {row: costs for row, costs in found.items() if costs is not None}
        shape = (len(rows), len(self.objectives))
        return tuple(rows), np.array([*rows.values()], dtype=np.float64).reshape(shape)

    @cached_property
    def front(self) -> tuple[Codes, ...]:
        """Feasible rows that nothing dominates, by the first objective; else the least bad."""
        rows, costs = self.measured
        if not rows:
            return ()
        kept = [bool((row <= self.surrogate.limits()).all()) for row in costs]
        order = list(range(len(rows)))
        if costs.shape[1]:
            order.sort(key=lambda i: float(costs[i, 0]))
        if not any(kept):
            return tuple(rows[i] for i in order[:_PARENTS])
        inside = [i for i in order if kept[i]]
        best = non_dominated(costs[inside])
        return tuple(rows[i] for i, good in zip(inside, best, strict=True) if good)


class Proposer(Protocol):
    """One source of proposals."""

    def __call__(self, view: View, count: int) -> Sequence[Codes]:
        """About `count` rows, the most promising first; known ones and duplicates may be there."""
        ...


def plans(view: View, count: int) -> list[Codes]:
    """Integer programs on the surrogate: a sweep over drops and sizes, then drawn tables."""
    found: list[Codes] = []
    for number in range(min(count, _PLANS)):
        drawn = view.generator if number % 2 else None
        size = _SIZES[number // 2 % len(_SIZES)]
        weights = [float(n == 0) or size for n in range(len(view.objectives))]
        table = view.surrogate.tables(weights, drawn)
        codes = best(table, _budget(view, table.damage, number), ())
        if codes is not None:
            found.append(codes)
    return list(dict.fromkeys(found))


def planned(view: View, count: int) -> list[Codes]:
    """Plans, and what differs from a plan in one choice."""
    some = plans(view, count)
    near = [row for plan in some for row in neighbours(plan, view.choices)]
    return [*some, *near]


def near_the_front(view: View, count: int) -> list[Codes]:
    """One choice of the best changed; of the fastest few everything, of the others a few."""
    front = view.front
    found = [row for plan in front[:_PARENTS] for row in neighbours(plan, view.choices)]
    for row in front[_PARENTS:]:
        near = list(neighbours(row, view.choices))
        picks = view.generator.permutation(len(near))[: max(count // 4, 1)]
        found += [near[i] for i in picks]
    return found


def ladder(view: View, count: int) -> list[Codes]:
    """Rungs by the surrogate, from everything on that gains to nothing that hurts."""
    weights = [float(n == 0) for n in range(len(view.objectives))]
    return list(rungs(view.surrogate.tables(weights)))


def children(view: View, count: int) -> Sequence[Codes]:
    """NSGA-II's children of what was measured (`genetic`); without pymoo there are none."""
    rows, costs = view.measured
    if len(rows) < 2 or not find_spec("pymoo"):
        return ()
    seed = int(view.generator.integers(2**31))
    mate = load_mating([len(choice) for choice in view.choices], seed, _POPULATION)
    over = np.maximum(costs - view.surrogate.limits(), 0.0).sum(axis=1)
    return mate(rows, costs, over, count)


def drawn(view: View, count: int) -> list[Codes]:
    """Random codes, and the best with a part of what changes outputs switched off."""
    found: list[Codes] = []
    front = view.front
    for number in range(count):
        if number % 2 or not front:
            found.append(coding.draw(view.choices, view.generator))
        else:
            row = front[int(view.generator.integers(len(front)))]
            found.append(_less(row, view.choices, view.generator))
    return found


def neighbours(row: Codes, choices: Sequence[Choice]) -> Iterator[Codes]:
    """Every row that differs in one choice."""
    for index, choice in enumerate(choices):
        for code in range(len(choice)):
            if code != row[index]:
                yield (*row[:index], code, *row[index + 1 :])


def _less(row: Codes, choices: Sequence[Choice], generator: np.random.Generator) -> Codes:
    share = generator.random()
    return tuple(
        0 if choice.family not in coding.EXACT and generator.random() < share else code
        for code, choice in zip(row, choices, strict=True)
    )


def _budget(view: View, damage: Sequence[Sequence[float]], number: int) -> float:
    """The predicted drop that a plan may have."""
    worst = [
        limit
        for limit, objective in zip(view.surrogate.limits(), view.objectives, strict=True)
        if objective.direction == "max"
    ]
    if not worst:
        return math.inf
    if math.isfinite(worst[0]):
        return max(float(worst[0]), 0.0) * _BUDGETS[number % len(_BUDGETS)]
    return sum(map(max, damage)) * _SHARES[number % len(_SHARES)]
