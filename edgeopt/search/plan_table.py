"""`PlanTable`: what codes cost by table, for many rows at once.

The latency is a sum over alternatives and over pairs that are both on, the drop a sum over
alternatives, the size exact for each alternative alone. All of it are estimates.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Choice
from edgeopt.core.protocols import Space
from edgeopt.search.codes import starting
from edgeopt.search.table import Table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
METRICS: tuple[str, str, str] = ("latency", "size", "accuracy_drop")
"""Latency and size over the baseline's, and what is lost (0..1)."""
FIGURES = ("macs", "size_bytes", "activation_bytes", "nodes")
GIVEN = np.array([1.0, 1.0, 0.0])
"""`METRICS` of the given model."""
_LEAST = np.array([0.01, 0.01, -np.inf])
"""Sums of shares end here: no plan takes nothing."""


class PlanTable:
    """Costs of rows of codes.

    Args:
        space: Decodes one recipe an alternative, now: over everything exact.
    """

    def __init__(self, space: Space) -> None:
        self.choices = space.choices
        self.sizes = np.array([len(choice) for choice in self.choices], dtype=np.int64)
        self.ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])[:-1]
        """Where the alternatives of each choice begin among all of them."""
        self.given = _figures_of(space, (0,) * len(self.choices))
        self.figures = _alone(space)
        self.use(_zeros(self.choices))

    def use(self, table: Table) -> None:
        """Take another table."""
        self.table = table
        latency = np.array([value for row in table.cost for value in row], dtype=np.float64)
        hurt = np.array([value for row in table.damage for value in row], dtype=np.float64)
        sizes = self.figures[:, 1] / (self.given[1] or 1.0)
        self.alone = np.stack([latency, sizes, hurt], axis=1)
        """What each alternative changes of `METRICS` [alternatives, 3]."""
        both = {(min(pair), max(pair)): value for pair, value in table.edges.items()}
        self.pairs = np.array([*both], dtype=np.int64).reshape(len(both), 2)
        """Choices that change the latency where both are on [pairs, 2], by `both` [pairs]."""
        self.both = np.array([*both.values()], dtype=np.float64)
        self.least_cost = np.array([min(row) for row in table.cost], dtype=np.float64)
        self.least_hurt = np.array([min(row[1:], default=0.0) for row in table.damage])

    def costs(self, rows: Ints) -> Floats:
        """Predicted `METRICS` [rows, 3] of codes [rows, choices]."""
        return self.floored(self.sums(rows))

    def sums(self, rows: Ints) -> Floats:
        """The same, where sums of shares may fall below what any plan takes."""
        sums = GIVEN + self.alone.take(rows + self.ends, axis=0).sum(axis=1)
        on = rows > 0
        first, second = self.pairs.T
        sums[:, 0] += (on.take(first, axis=1) & on.take(second, axis=1)) @ self.both
        return sums

    @staticmethod
    def floored(sums: Floats) -> Floats:
        """No plan takes less than a hundredth."""
        return np.maximum(sums, _LEAST)

    def figures_of(self, row: Ints) -> Floats:
        """`FIGURES` of one row [choices]: exact where alternatives do not meet."""
        return np.maximum(self.given + self.figures[row + self.ends].sum(axis=0), 0.0)


def _zeros(choices: Sequence[Choice]) -> Table:
    nothing = tuple(tuple(0.0 for _ in range(len(choice))) for choice in choices)
    return Table(nothing, nothing)


def _alone(space: Space) -> Floats:
    """What each alternative changes [alternatives, figures]; a repair changes nothing alone."""
    start = [starting(choice) for choice in space.choices]
    rows: list[Floats] = []
    for i, choice in enumerate(space.choices):
        off = _figures_of(space, [*start[:i], 0, *start[i + 1 :]])
        for k in range(len(choice)):
            silent = k == 0 or choice.family == "repair"
            found = off if silent else _figures_of(space, [*start[:i], k, *start[i + 1 :]])
            rows.append(found - off)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(FIGURES))


def _figures_of(space: Space, codes: Sequence[int]) -> Floats:
    found = space.static_cost(space.decode(codes))
    return np.array([found[name] for name in FIGURES], dtype=np.float64)
