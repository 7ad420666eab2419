"""`Table`: what each alternative gains and hurts, and what changes where neighbours are both on.

With an estimator the entries are differences of its predictions: one alternative over everything
exact, and pairs of coupled choices. Without one they are fitted to the trials alone, from a prior
that knows no model: all gain alike, pruning hurts more than precision, and the ends of a network
more than its middle.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Choice, Recipe
from edgeopt.core.estimates import DAMAGE, DROP, LATENCY, Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.search.archive import Archive
from edgeopt.search.codes import EXACT, Codes, heuristic, starting

Floats = npt.NDArray[np.float64]
Pair = tuple[int, int]
_FAMILY_DAMAGE: Mapping[str, float] = {"prune": 4.0, "repair": 0.0}
_ENDS = 0.1
"""Share of a family's choices at either end of the network that count double."""
_REPAIR = -1e-6
"""Repairs cost nothing and are tried on first."""
_SILENCE = 1e-5
_TRUST = 4.0
"""The prior of the fallback counts as so many trials for what one alternative has of its own."""
_SHARED_TRUST = 0.1
"""And for what all alternatives of one kind (a family's second, say) have in common."""


@dataclass(frozen=True)
class Table:
    """Relative changes against the start; negative costs are gains.

    Args:
        cost: [alternative] by choice, of the first objective.
        damage: [alternative] by choice, 0 or more.
        edges: Added to the cost where both choices of a pair are on.
    """

    cost: tuple[tuple[float, ...], ...]
    damage: tuple[tuple[float, ...], ...]
    edges: Mapping[Pair, float] = field(default_factory=dict[Pair, float])

    def cost_of(self, codes: Codes) -> float:
        """The predicted change of the first objective."""
        alone = sum(row[code] for row, code in zip(self.cost, codes, strict=True))
        return alone + sum(v for (i, j), v in self.edges.items() if codes[i] and codes[j])

    @property
    def loud(self) -> tuple[int, ...]:
        """Choices of which the table says anything; the others change nothing when alone."""
        coupled = {
            index for pair, value in self.edges.items() if abs(value) > _SILENCE for index in pair
        }
        return tuple(
            i
            for i, (cost, damage) in enumerate(zip(self.cost, self.damage, strict=True))
            if i in coupled or max(map(abs, cost)) > _SILENCE or max(damage) > _SILENCE
        )

    def damage_of(self, codes: Codes) -> float:
        """The predicted damage, in a unit that only ranks."""
        return sum(row[code] for row, code in zip(self.damage, codes, strict=True))


class EstimatedTable:
    """Tables from an estimator: recipes are decoded once, predictions are taken again.

    Decoding one may observe a model on calibration samples, half a minute on some. Where the
    estimator has the attribute `patience_s`, what was not decoded within so many seconds is
    taken as the alternative before it, which for the first is that nothing changes: first
    alternatives are decoded before second ones.

    Args:
        space: Of the choices.
        estimator: Of the same space.
        clock: Seconds.
    """

    def __init__(
        self, space: Space, estimator: Estimator, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._space, self._estimator = space, estimator
        until = clock() + float(getattr(estimator, "patience_s", math.inf))
        self._choices = space.choices
        self._sizes: tuple[tuple[float, ...], ...] | None = None
        start = [starting(choice) for choice in self._choices]
        self._start = space.decode(start)

        def at(*changed: tuple[int, int]) -> Recipe:
            codes = list(start)
            for index, code in changed:
                codes[index] = code
            return space.decode(codes)

        self._alone = [[self._start] * len(choice) for choice in self._choices]
        places = [(k, i) for i, choice in enumerate(self._choices) for k in range(len(choice))]
        for k, i in sorted(places):
            if self._choices[i].family != "repair" and k != start[i]:
                late = k > 0 and clock() >= until
                self._alone[i][k] = self._alone[i][k - 1] if late else at((i, k))
        pairs = sorted(estimator.coupled(self._choices))
        self._pairs = {(i, j): at((i, 1), (j, 1)) for i, j in pairs if clock() < until}

    def sizes(self) -> tuple[tuple[float, ...], ...]:
        """What each alternative adds to the size, as a share of the baseline's: exact, alone."""
        if self._sizes is None:
            given = self._bytes(self._space.empty()) or 1.0
            start = self._bytes(self._start)
            found: list[tuple[float, ...]] = []
            for recipes in self._alone:
                sizes = [(self._bytes(recipe) - start) / given for recipe in recipes]
                found.append(tuple(size - sizes[0] for size in sizes))
            self._sizes = tuple(found)
        return self._sizes

    def now(self, *, raw: bool = False) -> Table:
        """The table by what the estimator has learned so far.

        Args:
            raw: Damages as they are before any accuracy was set against them.
        """
        start, _ = self._predicted(self._start)
        cost: list[tuple[float, ...]] = []
        damage: list[tuple[float, ...]] = []
        for choice, recipes in zip(self._choices, self._alone, strict=True):
            found = [self._predicted(recipe, raw) for recipe in recipes]
            off = found[0][0] if starting(choice) else start
            repair = _REPAIR if choice.family == "repair" else 0.0
            cost.append(tuple(each - off + repair * (k > 0) for k, (each, _) in enumerate(found)))
            damage.append(tuple(max(each, 0.0) * (k > 0) for k, (_, each) in enumerate(found)))
        edges = {
            (i, j): self._predicted(recipe)[0] - start - cost[i][1] - cost[j][1]
            for (i, j), recipe in self._pairs.items()
        }
        return Table(tuple(cost), tuple(damage), edges)

    def _bytes(self, recipe: Recipe) -> float:
        return float(self._space.static_cost(recipe)["size_bytes"])

    def _predicted(self, recipe: Recipe, raw: bool = False) -> tuple[float, float]:
        found = self._estimator.predict(recipe)
        drop = None if raw else found.mean(DROP)
        hurt = drop if drop is not None else found.mean(DAMAGE)
        return found.mean(LATENCY) or 0.0, hurt or 0.0


def fitted(choices: Sequence[Choice], archive: Archive, objectives: Sequence[Objective]) -> Table:
    """A table from trials alone, by ridge regression around the prior."""
    edges = _chain(choices)
    cost, damage = _prior(choices)
    places = [(i, k) for i, choice in enumerate(choices) for k in range(1, len(choice))]
    kinds = [(choices[i].family, k) for i, k in places]
    hurt = accuracy_of(objectives)
    prior = np.array([cost[i][k] for i, k in places] + [0.0] * len(edges))
    told = _relative(archive.costs(objectives[0])) if objectives else {}
    gains = _ridge(
        _design(places, edges, tuple(told)), [*kinds, *[("edge", 0)] * len(edges)], prior, told
    )
    prior = np.array([damage[i][k] for i, k in places])
    drops = {} if hurt is None else _against_best(archive.costs(hurt))
    rows = _design(places, (), tuple(drops))
    hurts = np.maximum(_ridge(rows, kinds, prior * _scale(rows @ prior, drops), drops), 0.0)
    at = {place: index for index, place in enumerate(places)}
    return Table(
        _rows(choices, lambda i, k: float(gains[at[i, k]])),
        _rows(choices, lambda i, k: float(hurts[at[i, k]])),
        {pair: float(gains[len(places) + n]) for n, pair in enumerate(edges)},
    )


def uniform(choices: Sequence[Choice]) -> tuple[Codes, ...]:
    """Each kind of alternative everywhere: what teaches most where nothing is known."""
    kinds = {(c.family, k) for c in choices if c.family not in EXACT for k in range(1, len(c))}
    return heuristic(choices)[: 3 + len(kinds)]


def accuracy_of(objectives: Sequence[Objective]) -> Objective | None:
    """The first objective that is to be kept high; None where there is none."""
    return next((each for each in objectives if each.direction == "max"), None)


def _rows(
    choices: Sequence[Choice], entry: Callable[[int, int], float]
) -> tuple[tuple[float, ...], ...]:
    return tuple(
        (0.0, *(entry(i, k) for k in range(1, len(choice)))) for i, choice in enumerate(choices)
    )


def _chain(choices: Sequence[Choice]) -> tuple[Pair, ...]:
    """Consecutive precision choices: graph order is all that is known of neighbours."""
    places = [i for i, choice in enumerate(choices) if choice.family == "quantize"]
    return tuple(pairwise(places))


def _prior(choices: Sequence[Choice]) -> tuple[list[list[float]], list[list[float]]]:
    families = [choice.family for choice in choices]
    gain = 1.0 / max(len(choices), 1)
    cost: list[list[float]] = []
    damage: list[list[float]] = []
    for index, choice in enumerate(choices):
        later = range(1, len(choice))
        cost.append([0.0] + [_REPAIR if choice.family == "repair" else -gain * k for k in later])
        size, place = families.count(choice.family), families[:index].count(choice.family)
        ends = 2.0 if min(place, size - 1 - place) < _ENDS * size else 1.0
        exact = choice.family in EXACT
        hurt = 0.0 if exact else gain * ends * _FAMILY_DAMAGE.get(choice.family, 1.0)
        damage.append([0.0] + [hurt * k for k in later])
    return cost, damage


def _relative(costs: Mapping[Codes, float]) -> dict[Codes, float]:
    """Costs over that of nothing on (the median where it was not told), less 1."""
    if not costs:
        return {}
    given = next((cost for row, cost in costs.items() if not any(row)), None)
    start = given if given is not None else float(np.median(list(costs.values())))
    return {row: cost / start - 1.0 for row, cost in costs.items()} if start else {}


def _against_best(costs: Mapping[Codes, float]) -> dict[Codes, float]:
    best = min(costs.values(), default=0.0)
    return {row: cost - best for row, cost in costs.items()}


def _design(places: Sequence[Pair], edges: Sequence[Pair], rows: Sequence[Codes]) -> Floats:
    table = [
        [float(row[i] == k) for i, k in places]
        + [float(row[i] > 0 and row[j] > 0) for i, j in edges]
        for row in rows
    ]
    return np.array(table, dtype=np.float64).reshape(len(rows), len(places) + len(edges))


def _scale(said: Floats, values: Mapping[Codes, float]) -> float:
    """What the prior must be multiplied with to fit best; 1 where that says nothing."""
    power, fit = float(said @ said), float(said @ np.array([*values.values()]))
    return fit / power if power > 0 and fit > 0 else 1.0


def _ridge(
    rows: Floats, kinds: Sequence[tuple[str, int]], prior: Floats, values: Mapping[Codes, float]
) -> Floats:
    """Prior, what each kind of entry has in common, and what each entry has of its own."""
    left = np.array([*values.values()]) - rows @ prior
    different = tuple(dict.fromkeys(kinds))
    member = np.array([[a == b for b in different] for a in kinds], dtype=np.float64)
    member = member.reshape(len(kinds), len(different))
    both = np.hstack([rows, rows @ member])
    weight = np.diag([_TRUST] * len(kinds) + [_SHARED_TRUST] * member.shape[1])
    found = np.linalg.solve(both.T @ both + weight, both.T @ left)
    return prior + found[: len(kinds)] + member @ found[len(kinds) :]
