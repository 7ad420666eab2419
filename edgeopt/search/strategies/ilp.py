"""`ilp`: integer programs with precision borders, over a sweep of accuracy budgets.

After every batch of measurements the table behind the program is fitted again. Where a bound is
set on the accuracy, half of the budgets lie about the predicted damage at which measured
candidates begin to miss it: what damage means is only known from them. Codes that are known are
cut off, so it never repeats; nothing is drawn.
"""

import math
from collections.abc import Iterator, Sequence

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial
from edgeopt.search.codes import Codes, starting
from edgeopt.search.guided import Guided
from edgeopt.search.program import best
from edgeopt.search.table import Table

_SHARES = (1.0, 0.3, 0.1, 0.03, 0.0, 0.5, 0.2, 0.05, 0.01, 0.7)
"""Budgets as shares of the damage with everything on that gains."""
_AROUND = (0.9, 0.5, 1.2, 0.7)
_PATIENCE = 60
"""Programs in a row whose codes mean known recipes before this batch ends."""


class Ilp:
    """One program a candidate."""

    def __init__(
        self, space: Space, objectives: tuple[Objective, ...], estimator: Estimator | None
    ) -> None:
        self._guided = Guided(space, objectives, estimator)
        self._choices = space.choices
        self._archive = self._guided.archive
        self._step = 0

    def ask(self, count: int) -> Sequence[Candidate]:
        """The solutions of up to `count` budgets; fewer where all budgets are exhausted."""
        if count < 1:
            return ()
        found = self._guided.begin(count)
        if len(found) < count:
            table = self._guided.table()
            found += self._archive.new(self._solutions(table), count - len(found))
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._guided.tell(trials)

    def _solutions(self, table: Table) -> Iterator[Codes]:
        """Codes budget after budget, until every one of them has nothing left."""
        if not self._archive.known:
            yield tuple(starting(choice) for choice in self._choices)
        whole = self._whole(table)
        dry: set[float] = set()
        loud: Sequence[int] = table.loud
        for _ in range(_PATIENCE):
            budget = self._budget(table, whole)
            self._step += 1
            if budget in dry:
                continue
            codes = best(table, budget, self._archive.known, loud)
            if codes is not None:
                yield self._turned(codes, loud)
            elif len(loud) < len(self._choices):
                loud = range(len(self._choices))
            elif math.isinf(budget):
                return
            else:
                dry.add(budget)

    def _turned(self, codes: Codes, loud: Sequence[int]) -> Codes:
        """What the table says nothing about takes turns: repairs, ways to find ranges."""
        if len(loud) == len(self._choices):
            return codes
        return tuple(
            code if i in loud else self._step // 2 % len(self._choices[i])
            for i, code in enumerate(codes)
        )

    def _whole(self, table: Table) -> float:
        """The damage with everything on that gains."""
        codes = best(table, math.inf, ())
        return 0.0 if codes is None else table.damage_of(codes)

    def _budget(self, table: Table, whole: float) -> float:
        """The next budget: a share of everything, in turn with what lies about the bound."""
        turn, other = divmod(self._step, 2)
        share = _SHARES[turn % len(_SHARES)]
        edge = self._edge(table) if other else None
        if edge is not None:
            return edge * _AROUND[turn % len(_AROUND)]
        return math.inf if share == 1.0 else share * whole

    def _edge(self, table: Table) -> float | None:
        """The damage between the most that kept all bounds and the least that did not.

        None where nothing was missed yet, or nothing kept.
        """
        kept: list[float] = []
        missed: list[float] = []
        for row in self._archive.told:
            good = self._guided.keeps(row)
            if good is not None:
                (kept if good else missed).append(table.damage_of(row))
        if not missed or not max(kept, default=0.0):
            return None
        return (max(kept) + min((each for each in missed if each > 0), default=max(kept))) / 2


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Ilp:
    """Integer programs over the space's choices; the seed changes nothing."""
    return Ilp(space, objectives, estimator)


PLUGIN: StrategyFactory = make
