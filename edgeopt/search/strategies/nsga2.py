"""`nsga2`: NSGA-II (Deb et al. 2002) on integer codes, by pymoo, seeded, mutation rate 1/L.

Three departures from pymoo's defaults, each for a measured reason. Its mixed-variable search
changes a third of all choices a child; here a child has one reset choice in the mean. A random
start finds nothing in a few hundred measurements; here it begins with `codes.heuristic`. Its
duplicate check knows the current population only, so that dead designs are measured again; here
nothing that was ever asked for or told comes back.

The population is selected from everything that was told, so late, partial and foreign results
need no special case, and asking depends on nothing but the seed and the trials.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial
from edgeopt.search import codes
from edgeopt.search.codes import Codes
from edgeopt.search.genetic import Mating, load_mating

_POPULATION = 24
_SEEDS = 12
"""Random codes join the heuristic ones only where these are fewer: children are better than both
(benchmarks/search_toy.py)."""
_PATIENCE = 40
"""Batches of children in a row that bring nothing new before random codes are drawn."""
_DRAWS = 200
"""Random codes in a row that bring nothing new before the space counts as exhausted."""


class Nsga2:
    """Seeds first, then children of the best that were measured so far."""

    def __init__(
        self, space: Space, seed: int, objectives: tuple[Objective, ...], mating: Mating
    ) -> None:
        self._space = space
        self._objectives = objectives
        self._mating = mating
        self._generator = np.random.default_rng(seed)
        self._runtime = next(space.guesses())[1].runtime
        self._told: dict[Codes, Trial] = {}
        self._asked: dict[str, Codes] = {}
        self._keys: set[str] = set()
        self._codes: set[Codes] = set()
        known = codes.heuristic(space.choices)[:_POPULATION]
        missing = max(_SEEDS - len(known), 0)
        random = (codes.draw(space.choices, self._generator) for _ in range(missing))
        self._seeds = list(dict.fromkeys(chain(known, random)))

    def ask(self, count: int) -> Sequence[Candidate]:
        """Seeds while there are some, then children; fewer where nothing new is found."""
        found: list[Candidate] = []
        while self._seeds and len(found) < count:
            found += self._new([self._seeds.pop(0)], count - len(found))
        misses = 0
        while len(found) < count and misses < _PATIENCE:
            born = self._new(self._children(count - len(found)), count - len(found))
            misses = 0 if born else misses + 1
            found += born
        while len(found) < count and misses < _PATIENCE + _DRAWS:
            drawn = self._new([codes.draw(self._space.choices, self._generator)], 1)
            misses = _PATIENCE if drawn else misses + 1
            found += drawn
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial that codes can express joins the archive; failures as infeasible."""
        for trial in trials:
            self._keys.add(trial.candidate.key)
            row = self._asked.get(trial.candidate.key) or self._row_of(trial.candidate)
            if row is not None:
                self._codes.add(row)
                self._told[row] = trial

    def _row_of(self, candidate: Candidate) -> Codes | None:
        """The codes that mean exactly a candidate of somebody else."""
        row = codes.encode(self._space.choices, candidate.recipe)
        if row is None or candidate.runtime != self._runtime:
            return None
        same = self._space.decode(row).digest == candidate.recipe.digest
        return row if same else None

    def _new(self, rows: Sequence[Codes], limit: int) -> list[Candidate]:
        found: list[Candidate] = []
        for row in rows:
            if len(found) == limit or row in self._codes:
                continue
            self._codes.add(row)
            candidate = Candidate(recipe=self._space.decode(row), runtime=self._runtime)
            if candidate.key not in self._keys:
                self._keys.add(candidate.key)
                self._asked[candidate.key] = row
                found.append(candidate)
        return found

    def _children(self, count: int) -> Sequence[Codes]:
        if not self._told or not self._space.choices:
            return ()
        costs, excess = self._archive()
        return self._mating(tuple(self._told), costs, excess, count)

    def _archive(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Costs [n, objectives], and by how much each trial misses the bounds [n].

        A failure, or a trial without a value for an objective that others have, gets the worst
        cost seen and a miss above all others.
        """
        trials = tuple(self._told.values())
        table = [[o.cost(t) for o in self._objectives] for t in trials]
        costs = np.array(table, dtype=np.float64).reshape(len(trials), len(self._objectives))
        known = ~np.isnan(costs).all(axis=0)
        costs = costs[:, known]
        limits = np.array([o.limit for o in self._objectives])[known]
        missing = np.isnan(costs).any(axis=1) | (costs.shape[1] == 0)
        scale = np.where(np.isfinite(limits) & (limits != 0), np.abs(limits), 1.0)
        excess = np.nansum(np.maximum(costs - limits, 0.0) / scale, axis=1)
        excess[missing] = excess.max(initial=0.0) + 1.0
        worst = np.nanmax(costs, axis=0, initial=-np.inf) if costs.size else costs
        return np.where(np.isnan(costs), worst, costs), excess


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Nsga2:
    """NSGA-II over the space's choices.

    Raises:
        UsageError: pymoo is not installed.
    """
    mating = load_mating([len(choice) for choice in space.choices], seed, _POPULATION)
    return Nsga2(space, seed, objectives, mating)


PLUGIN: StrategyFactory = make
