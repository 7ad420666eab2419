"""`local`: Pareto local search (Paquete and Stützle): neighbours of what nothing dominates.

The neighbourhood of a row is every row that differs in one choice. Members of the front that were
looked around least come first; their neighbours are tried in an order that is drawn. When the
whole front is exhausted, random codes go on. No model, no estimates: the control for both.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.front import front_of
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial
from edgeopt.search import codes as coding
from edgeopt.search.archive import Archive
from edgeopt.search.codes import Codes
from edgeopt.search.proposers import neighbours

_PATIENCE = 200


class Local:
    """Around the front, one choice at a time."""

    def __init__(self, space: Space, seed: int, objectives: tuple[Objective, ...]) -> None:
        self._choices = space.choices
        self._archive = Archive(space)
        self._seeds = list(coding.heuristic(space.choices))
        self._objectives, self._seed = objectives, seed
        self._looked: dict[Codes, int] = {}

    def ask(self, count: int) -> Sequence[Candidate]:
        """Seeds, then neighbours; random codes where neither is left."""
        found: list[Candidate] = []
        while self._seeds and len(found) < count:
            found += self._archive.new([self._seeds.pop(0)], 1)
        if len(found) < count:
            found += self._archive.new(self._around(), count - len(found))
        if len(found) < count:
            found += self._archive.new(self._random(), count - len(found))
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._archive.tell(trials)

    def _around(self) -> Iterator[Codes]:
        """One neighbour of each member in turn, those that were looked around least first."""
        told = self._archive.told
        if not told:
            return
        rows = {trial.number: row for row, trial in told.items()}
        device = next(iter(told.values())).device
        members = front_of(told.values(), self._objectives, device).members
        front = [rows[member.number] for member in members]
        front.sort(key=lambda row: self._looked.get(row, 0))
        left = {row: iter(self._shuffled(row)) for row in front}
        while left:
            for row in list(left):
                near = next(left[row], None)
                if near is None:
                    del left[row]
                else:
                    self._looked[row] = self._looked.get(row, 0) + 1
                    yield near

    def _shuffled(self, row: Codes) -> list[Codes]:
        """The neighbours that are not known, in an order that depends on the row and the seed."""
        near = [each for each in neighbours(row, self._choices) if not self._archive.knows(each)]
        order = np.random.default_rng([self._seed, *row]).permutation(len(near))
        return [near[i] for i in order]

    def _random(self) -> list[Codes]:
        generator = np.random.default_rng([self._seed, len(self._archive.known)])
        return [coding.draw(self._choices, generator) for _ in range(_PATIENCE)]


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Local:
    """Local search over the space's choices; estimates change nothing."""
    return Local(space, seed, objectives)


PLUGIN: StrategyFactory = make
