"""`random`: biased random recipes. What every learning strategy has to beat."""

from collections.abc import Sequence

import numpy as np

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial
from edgeopt.search import codes

_PATIENCE = 200
"""Draws in a row that bring nothing new before the space counts as exhausted."""


class Random:
    """Independent draws of `codes.draw`, never the same recipe twice."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._generator = np.random.default_rng(seed)
        self._runtime = next(space.guesses())[1].runtime
        self._seen: set[str] = set()

    def ask(self, count: int) -> Sequence[Candidate]:
        """Up to `count` recipes that nobody has asked for or measured."""
        found: list[Candidate] = []
        misses = 0
        while len(found) < count and misses < _PATIENCE:
            drawn = codes.draw(self._space.choices, self._generator)
            candidate = Candidate(recipe=self._space.decode(drawn), runtime=self._runtime)
            misses += 1
            if candidate.key not in self._seen:
                self._seen.add(candidate.key)
                found.append(candidate)
                misses = 0
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Results change nothing but what is known already."""
        self._seen.update(trial.candidate.key for trial in trials)


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Random:
    """Random search; the objectives change nothing."""
    return Random(space, seed)


PLUGIN: StrategyFactory = make
