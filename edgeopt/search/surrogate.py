"""`Surrogate`: what is predicted for codes on one device, refitted from every trial.

Per objective one `Process` around a prior. Of the latency the prior is the estimator's
node-and-edge table (`estimate.gain`: prices of work and of precision borders, refitted by
non-negative least squares), of the size the exact change of each alternative alone, of the
accuracy the damages of single alternatives, calibrated by the first measurements (`drops`).

Everything is relative: latency, size and memory to the baseline's, accuracy as what is lost.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.core.trial import Trial
from edgeopt.search.archive import Archive
from edgeopt.search.codes import Codes
from edgeopt.search.drops import Entries, drop_process, expected
from edgeopt.search.process import Columns, Prior, Process, as_array
from edgeopt.search.table import EstimatedTable, Pair, Table, fitted

Floats = npt.NDArray[np.float64]
_LATENCY_NOISE = 0.01
_DROP_NOISE = 0.002
_SIZE_NOISE = 0.002
_RUINED = 5.0
"""Drops of so many times what is allowed are as bad as any,"""
_RUINED_SHARE = 0.05
"""but not those of less than this share of the given accuracy,"""
_RUINED_FREE = 0.5
"""and where no bound says how much matters those of this share."""
_TINY = 1e-9
_FAILURES = 0.05
"""Share of failures that is believed before any trial, counting as so many trials:"""
_FAILURES_TRUST = 2.0


@dataclass(frozen=True)
class Forecast:
    """What is predicted for some rows, in the order of the objectives.

    Args:
        means, spreads: [rows, objectives], in the units of `Surrogate.relative`.
        works: Probability [rows] that a row can be built and run at all.
    """

    means: Floats
    spreads: Floats
    works: Floats


class Surrogate:
    """Fitted to an archive; refitted where that has grown.

    Args:
        space: Of the choices.
        objectives: Of the search.
        estimator: Behind the priors; None: they come from what all spaces have in common.
        archive: What was told.
    """

    def __init__(
        self,
        space: Space,
        objectives: tuple[Objective, ...],
        estimator: Estimator | None,
        archive: Archive,
    ) -> None:
        self.objectives = objectives
        self._choices = space.choices
        self._archive = archive
        self._source = None if estimator is None else EstimatedTable(space, estimator)
        self._fits: tuple[Process, ...] = ()
        self._columns: Columns | None = None
        self._base: tuple[float, ...] = ()
        self._told = -1

    def refit(self) -> None:
        """Take in what was told since; nothing where that is nothing."""
        count = len(self._archive.told)
        if count == self._told:
            return
        self._told = count
        self._base = tuple(self._baseline(each) for each in self.objectives)
        table = self._table()
        if self._columns is None or self._columns.pairs != tuple(table.edges):
            self._columns = Columns(self._choices, tuple(table.edges))
        self._fits = tuple(
            self._fit(number, objective, table) for number, objective in enumerate(self.objectives)
        )

    def predict(self, rows: Sequence[Codes]) -> Forecast:
        """Means and spreads of some rows; `refit` comes first."""
        found = [fit.predict(rows) for fit in self._fits]
        shape = (len(rows), len(self._fits))
        return Forecast(
            means=np.array([mean for mean, _ in found]).T.reshape(shape),
            spreads=np.array([spread for _, spread in found]).T.reshape(shape),
            works=self._works(rows),
        )

    def deviations(
        self, rows: Sequence[Codes], count: int, generator: np.random.Generator
    ) -> Floats:
        """Draws [count, rows, objectives] of truth less forecast, in spreads; `count` is even.

        Every second half is the first one's negative.
        """
        half = [fit.deviations(rows, count // 2, generator) for fit in self._fits]
        found = np.array(half).reshape(len(self._fits), count // 2, len(rows))
        drawn = found.transpose(1, 2, 0)
        return np.concatenate([drawn, -drawn])

    def relative(self, trial: Trial) -> Floats | None:
        """Costs [objectives] of a trial in the units of forecasts; None where one is missing."""
        costs = [objective.cost(trial) for objective in self.objectives]
        if any(cost is None for cost in costs):
            return None
        found = np.array([self._unit(n, cost or 0.0) for n, cost in enumerate(costs)])
        return np.minimum(found, self.ceilings())

    def limits(self) -> Floats:
        """The worst feasible values [objectives] in the same units; infinity without a bound."""
        return np.array([self._unit(n, each.limit) for n, each in enumerate(self.objectives)])

    def ceilings(self) -> Floats:
        """What is lost [objectives] where all is lost: beyond it a drop is as bad as any."""
        return np.array([self._ruined(n) for n in range(len(self.objectives))])

    def tables(
        self, weights: Sequence[float], generator: np.random.Generator | None = None
    ) -> Table:
        """The additive part as a table: a weighted cost of all but the accuracy, and the drop.

        Args:
            weights: Of the objectives; that of the accuracy counts nothing.
            generator: Draws the table from the posterior; None takes the mean.
        """
        assert self._columns is not None
        cost = np.zeros(len(self._columns.places) + len(self._columns.pairs))
        hurt = np.zeros(len(self._columns.places))
        for fit, objective, weight in zip(self._fits, self.objectives, weights, strict=True):
            found = self._spread_out(fit.weights(generator))
            if objective.direction == "max":
                hurt = found[: len(hurt)]
            elif weight:
                cost = cost + weight * found
        return self._as_table(cost, hurt)

    def noise(self) -> Floats:
        """Standard deviations [objectives] of one measurement."""
        return np.array([fit.noise for fit in self._fits])

    def _spread_out(self, weights: Floats) -> Floats:
        """What a kind has in common, given to each of its places; then the pairs."""
        assert self._columns is not None
        columns = self._columns
        kinds = weights[len(columns.places) + len(columns.pairs) :]
        places = weights[: len(columns.places)] + columns.shared(kinds)
        pairs = weights[len(columns.places) : len(columns.places) + len(columns.pairs)]
        return np.concatenate([places, pairs])

    def _as_table(self, cost: Floats, hurt: Floats) -> Table:
        assert self._columns is not None
        costs = [[0.0] * len(choice) for choice in self._choices]
        damages = [[0.0] * len(choice) for choice in self._choices]
        for n, (i, k) in enumerate(self._columns.places):
            costs[i][k] = float(cost[n])
            damages[i][k] = max(float(hurt[n]), 0.0)
        edges = cost[len(self._columns.places) :]
        return Table(
            cost=tuple(map(tuple, costs)),
            damage=tuple(map(tuple, damages)),
            edges={pair: float(edges[n]) for n, pair in enumerate(self._columns.pairs)},
        )

    def _table(self) -> Table:
        if self._source is not None:
            return self._source.now(raw=True)
        return fitted(self._choices, self._archive, self.objectives)

    def _fit(self, number: int, objective: Objective, table: Table) -> Process:
        told = self._archive.costs(objective)
        rows = list(told)
        worst = self._ruined(number)
        values = [min(self._unit(number, cost), worst) for cost in told.values()]
        if objective.direction == "max":
            return self._fit_drop(table, rows, values)
        if objective.metric == "latency":
            return self._process(table.cost, table.edges, rows, values, _LATENCY_NOISE)
        sizes = None
        if objective.metric == "size" and self._source is not None:
            sizes = self._source.sizes()
        nothing = tuple(tuple(0.0 for _ in row) for row in table.cost)
        return self._process(sizes or nothing, {}, rows, values, _SIZE_NOISE)

    def _fit_drop(self, table: Table, rows: Sequence[Codes], values: Sequence[float]) -> Process:
        def fit(prior: Entries, drops: Floats, doubt: Entries) -> Process:
            return self._process(prior, {}, rows, drops.tolist(), _DROP_NOISE, doubt)

        damage, worst = expected(self._choices, table.damage), float(np.min(self.ceilings()))
        return drop_process(damage, rows, np.array(values), worst=worst, fit=fit)

    def _process(
        self,
        entries: tuple[tuple[float, ...], ...],
        edges: Mapping[Pair, float],
        rows: Sequence[Codes],
        values: Sequence[float],
        floor: float,
        doubt: tuple[tuple[float, ...], ...] | None = None,
    ) -> Process:
        """A process around entries; `doubt` are spreads that no fit of them makes smaller."""
        columns = self._columns
        assert columns is not None
        places = np.array([entries[i][k] for i, k in columns.places])
        least = np.array([0.0 if doubt is None else doubt[i][k] for i, k in columns.places])
        pairs = np.array([edges.get(pair, 0.0) for pair in columns.pairs])
        size = float(np.mean(np.abs(places) + least)) if len(places) else 0.0
        if not size:
            size = float(np.std(values)) / max(len(places), 1) ** 0.5 if values else 0.0
        size = max(size, _TINY)
        weights = np.concatenate([places, pairs, np.zeros(len(columns.kinds))])
        spreads = np.concatenate(
            [
                0.5 * np.abs(places) + 0.2 * size + least,
                0.5 * np.abs(pairs) + 0.1 * size * bool(edges),
                columns.counts * 0.3 * size,
            ]
        )
        return Process(columns, Prior(weights, spreads), rows, values, floor=floor)

    def _baseline(self, objective: Objective) -> float:
        """The baseline's cost; the median of what was told where that is missing."""
        costs = self._archive.costs(objective)
        given = next((cost for row, cost in costs.items() if not any(row)), None)
        if given is None:
            given = float(np.median([*costs.values()])) if costs else 0.0
        return given

    def _unit(self, number: int, cost: float) -> float:
        """A cost as it is fitted: relative to the baseline's; of the accuracy what is lost."""
        base, objective = self._base[number], self.objectives[number]
        if objective.direction == "max":
            return cost - base
        return cost / base - 1.0 if base else cost

    def _ruined(self, number: int) -> float:
        objective, base = self.objectives[number], self._base[number]
        if objective.direction != "max":
            return math.inf
        allowed, whole = objective.limit - base, abs(base) or 1.0
        if not 0 < allowed < math.inf:
            return _RUINED_FREE * whole
        return max(_RUINED * allowed, _RUINED_SHARE * whole)

    def _works(self, rows: Sequence[Codes]) -> Floats:
        """By the failures among the nearest rows that were told."""
        told = self._archive.told
        if not told:
            return np.full(len(rows), 1.0 - _FAILURES)
        failed = np.array([float(trial.measurement is None) for trial in told.values()])
        if not failed.any():
            return np.ones(len(rows))
        known = as_array(list(told))
        apart = (as_array(rows)[:, None, :] != known[None, :, :]).sum(axis=2)
        near = np.exp(-apart / max(2.0, known.shape[1] / 12))
        share = near @ failed + _FAILURES * _FAILURES_TRUST
        return 1.0 - share / (near.sum(axis=1) + _FAILURES_TRUST)
