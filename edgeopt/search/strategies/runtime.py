"""`runtime`: the same models under other runtime settings: threads, spinning, processors, options.

It comes after a search for recipes and is told everything that was measured. The given model is
tried under every alternative of the space, in the space's order; then the best recipes so far,
under the settings that gained most first. Settings that lost on two models are not tried on a
third: what costs time there (a thread too many, a small cluster) costs it everywhere.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.estimates import Estimator
from edgeopt.core.front import front_of
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial

_AT_ONCE = 4
"""A few at a time, so that what the first show decides on the next."""
_RECIPES = 3
_LOSSES = 2


class Runtime:
    """The given model and the best recipes so far under the space's alternatives."""

    def __init__(self, space: Space, objectives: tuple[Objective, ...]) -> None:
        self._empty = space.empty()
        self._user, *others = space.runtimes
        self._others: tuple[RuntimeSettings, ...] = tuple(others)
        self._objectives = objectives
        self._asked: set[str] = set()
        self._told: dict[str, Trial] = {}

    def ask(self, count: int) -> Sequence[Candidate]:
        """Up to `count` of what is most promising now, at most a few."""
        found: list[Candidate] = []
        for candidate in self._promising():
            if len(found) == min(count, _AT_ONCE):
                break
            if candidate.key not in self._asked:
                self._asked.add(candidate.key)
                found.append(candidate)
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        for trial in trials:
            self._asked.add(trial.candidate.key)
            self._told[trial.candidate.key] = trial

    def _promising(self) -> Iterator[Candidate]:
        """The given model under everything, then each good recipe under what did not lose."""
        for runtime in self._others:
            yield Candidate(recipe=self._empty, runtime=runtime)
        ranked = sorted(self._others, key=self._ratio)
        for recipe in self._best():
            for runtime in ranked:
                if self._losses(runtime) < _LOSSES:
                    yield Candidate(recipe=recipe, runtime=runtime)

    def _best(self) -> tuple[Recipe, ...]:
        """Recipes of the front under the user's settings, the cheapest first."""
        own = [
            trial
            for trial in self._told.values()
            if trial.candidate.runtime == self._user and self._cost(trial) is not None
        ]
        members = front_of(own, self._objectives, own[0].device).members if own else ()
        ranked = sorted(members, key=lambda trial: (self._cost(trial) or math.inf, trial.number))
        recipes = (t.candidate.recipe for t in ranked if not t.candidate.is_baseline)
        return tuple(recipes)[:_RECIPES]

    def _cost(self, trial: Trial) -> float | None:
        return self._objectives[0].cost(trial)

    def _ratios(self, runtime: RuntimeSettings) -> list[float]:
        """First objective under some settings over that under the user's, recipe by recipe.

        A failure under settings, where the user's worked, is infinite.
        """
        found: list[float] = []
        for trial in self._told.values():
            if trial.candidate.runtime != runtime:
                continue
            beside = self._told.get(replace(trial.candidate, runtime=self._user).key)
            own = None if beside is None else self._cost(beside)
            if own is not None and own > 0:
                cost = self._cost(trial)
                found.append(math.inf if cost is None else cost / own)
        return found

    def _ratio(self, runtime: RuntimeSettings) -> float:
        """The mean ratio; 1 where nothing is known, so that a known gain goes first."""
        ratios = self._ratios(runtime)
        return sum(ratios) / len(ratios) if ratios else 1.0

    def _losses(self, runtime: RuntimeSettings) -> int:
        """On how many recipes the settings cost more than the user's; a failure is enough."""
        ratios = self._ratios(runtime)
        return _LOSSES if math.inf in ratios else sum(ratio > 1 for ratio in ratios)


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Runtime:
    """Runtime settings; nothing is drawn, so the seed changes nothing."""
    return Runtime(space, objectives)


PLUGIN: StrategyFactory = make
