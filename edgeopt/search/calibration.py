"""Damages of single alternatives set against the first measured drops: two numbers.

A damage d (noise over signal) ranks alternatives; what it does to an accuracy it does not say.
drop = factor * sum d^exponent has one number for the unit and one for how much worse the worst
are than the mild ones. In a study of simulated instances the two were worth as much as a trained
policy.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.objective import Objective
from edgeopt.search.archive import Archive
from edgeopt.search.codes import Codes
from edgeopt.search.table import Table, accuracy_of

Floats = npt.NDArray[np.float64]
EXPONENTS = (0.4, 0.6, 0.8, 1.0)
_USUAL = 0.6
_ENOUGH = 4
_RUINED = 0.1
"""Drops beyond it are all the same: they must not rule the fit."""
_TINY = 1e-9


def calibrated(table: Table, archive: Archive, objectives: Sequence[Objective]) -> Table:
    """A table with damages in the unit of the accuracy, as far as trials say."""
    hurt = accuracy_of(objectives)
    costs = {} if hurt is None else archive.costs(hurt)
    start = next((cost for row, cost in costs.items() if not any(row)), None)
    rows = [row for row in costs if table.damage_of(row) > 0]
    if start is None or len(rows) < _ENOUGH:
        return _with_damage(table, bent(table.damage, _USUAL, 1.0))
    drops = np.clip([costs[row] - start for row in rows], 0.0, _RUINED)
    best: tuple[float, float, float] | None = None
    for exponent in EXPONENTS:
        said = sums(bent(table.damage, exponent, 1.0), rows)
        factor = scale(said, drops)
        error = float(np.square(np.minimum(factor * said, _RUINED) - drops).sum())
        if best is None or error < best[0]:
            best = (error, exponent, factor)
    assert best is not None
    return _with_damage(table, bent(table.damage, *best[1:]))


def bent(
    damage: Sequence[Sequence[float]], exponent: float, factor: float
) -> tuple[tuple[float, ...], ...]:
    """factor * d^exponent of every alternative."""
    return tuple(tuple(factor * each**exponent for each in row) for row in damage)


def sums(entries: Sequence[Sequence[float]], rows: Sequence[Codes]) -> Floats:
    """Of what is on in each row [rows]."""
    return np.array([sum(e[k] for e, k in zip(entries, row, strict=True)) for row in rows])


def scale(said: Floats, values: Floats) -> float:
    """The factor that fits best, positive; 1 where nothing is said."""
    power = float(said @ said) if len(said) else 0.0
    return max(float(said @ values) / power, _TINY) if power > 0 else 1.0


def _with_damage(table: Table, damage: tuple[tuple[float, ...], ...]) -> Table:
    return Table(cost=table.cost, damage=damage, edges=table.edges)
