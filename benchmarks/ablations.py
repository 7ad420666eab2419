"""The portfolio without one of its parts, for benchmarks/search.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Strategy
from edgeopt.search import proposers
from edgeopt.search.selector import Selector
from edgeopt.search.strategies.portfolio import Portfolio
from edgeopt.search.surrogate import Surrogate

SOURCES: Mapping[str, proposers.Proposer] = {
    "planner": proposers.planned,
    "ladder": proposers.ladder,
    "local": proposers.near_the_front,
    "nsga2": proposers.children,
    "random": proposers.drawn,
}


def without(source: str) -> Callable[..., Strategy]:
    """No proposals of one source; `estimates`: no estimator behind the surrogate."""

    def make(space: Any, *, seed: int, objectives: Any, estimator: Any = None) -> Strategy:
        known = None if source == "estimates" else estimator
        sources = {name: each for name, each in SOURCES.items() if name != source}
        return Portfolio(space, seed, objectives, known, sources)

    return make


class _Once(Surrogate):
    """Fitted to the first guesses, never again."""

    _done = False

    def refit(self) -> None:
        """Only once."""
        if not self._done:
            self._done = True
            super().refit()


class _NoRefit(Portfolio):
    """Predicts by what the first guesses said."""

    def _modelled(self, known: tuple[Objective, ...]) -> Surrogate:
        return _Once(self._space, known, self._estimator, self._archive)


class _NoSelector(Portfolio):
    """Measures proposals in the order in which each source has them, the sources in turn."""

    def _picked(
        self, selector: Selector, count: int, origin: Sequence[str], quota: Mapping[str, int]
    ) -> Sequence[int]:
        turns: dict[str, int] = {}
        keys: list[tuple[int, int]] = []
        for index, name in enumerate(origin):
            turns[name] = turns.get(name, 0) + 1
            keys.append((turns[name], index))
        return [index for turn, index in sorted(keys) if turn <= quota.get(origin[index], 0)]


def _of(kind: type[Portfolio]) -> Callable[..., Strategy]:
    def make(space: Any, *, seed: int, objectives: Any, estimator: Any = None) -> Strategy:
        return kind(space, seed, objectives, estimator, SOURCES)

    return make


ABLATIONS: Mapping[str, Callable[..., Strategy]] = {
    "portfolio without planner": without("planner"),
    "portfolio without local": without("local"),
    "portfolio without nsga2": without("nsga2"),
    "portfolio without estimates": without("estimates"),
    "portfolio without refit": _of(_NoRefit),
    "portfolio without selector": _of(_NoSelector),
}
