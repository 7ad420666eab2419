"""`ladder`: from everything on, release what hurts most for what it gains (AIMET's and NNCF's way).

Everything starts at its most aggressive alternative that gains; one step releases one choice to a
gentler alternative or off, in the order of damage saved a gain lost. Rungs are measured coarsely
first, then about where the accuracy bound lies; with what was learned the order is made again.
Beside it the best so far is changed in one choice at a time. Nothing is drawn.
"""

from collections.abc import Iterator, Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial
from edgeopt.search.codes import Codes
from edgeopt.search.guided import Guided
from edgeopt.search.ladder_rungs import rungs
from edgeopt.search.table import Table

_COARSE = 8
"""Rungs that are measured before anything is refined."""
_BEST = 3


class Ladder:
    """One order of release after the other, each by what was learned from those before."""

    def __init__(
        self, space: Space, objectives: tuple[Objective, ...], estimator: Estimator | None
    ) -> None:
        self._guided = Guided(space, objectives, estimator)

    def ask(self, count: int) -> Sequence[Candidate]:
        """Rungs, and once the coarse ones are told changes of the best for half of them."""
        if count < 1:
            return ()
        table, archive = self._guided.table(), self._guided.archive
        found = self._guided.begin(count)
        share = count if len(archive.told) < _COARSE else (count + 1) // 2
        found += archive.new(self._rungs(table), share - len(found))
        found += archive.new(self._changes(table), count - len(found))
        found += archive.new(self._rungs(table), count - len(found))
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._guided.tell(trials)

    def _rungs(self, table: Table) -> Iterator[Codes]:
        """The ladder's rungs: coarsely, then the nearer to the bound the sooner."""
        ladder = rungs(table)
        coarse = sorted({round(n * (len(ladder) - 1) / _COARSE) for n in range(_COARSE + 1)})
        yield from (ladder[index] for index in coarse)
        bound = self._bound(ladder)
        yield from (ladder[i] for i in sorted(range(len(ladder)), key=lambda i: abs(i - bound)))

    def _bound(self, ladder: Sequence[Codes]) -> float:
        """Between the last rung that missed a bound and the first behind it that kept them."""
        found = [self._guided.keeps(row) for row in ladder]
        kept = [i for i, good in enumerate(found) if good is True]
        missed = [i for i, good in enumerate(found) if good is False]
        first = min(kept, default=len(ladder) - 1)
        return (max((i for i in missed if i < first), default=0) + first) / 2

    def _changes(self, table: Table) -> Iterator[Codes]:
        """The best so far with one choice changed, what should gain most first; then others."""
        objectives = self._guided.objectives
        costs = self._guided.archive.costs(objectives[0]) if objectives else {}
        ranked = sorted(costs, key=lambda row: (not self._guided.keeps(row), costs[row]))
        for some in (ranked[:_BEST], ranked[_BEST:]):
            near = {change: None for row in some for change in _neighbours(row, table)}
            yield from sorted(near, key=table.cost_of)


def _neighbours(row: Codes, table: Table) -> Iterator[Codes]:
    for index, alternatives in enumerate(table.cost):
        for code in range(len(alternatives)):
            if code != row[index]:
                yield (*row[:index], code, *row[index + 1 :])


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Ladder:
    """A ladder over the space's choices; nothing is drawn, so the seed changes nothing."""
    return Ladder(space, objectives, estimator)


PLUGIN: StrategyFactory = make
