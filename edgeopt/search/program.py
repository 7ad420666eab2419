"""The one typed door to SciPy's integer programs: the best codes by a table, within a budget.

    minimise   sum cost x + sum edge y
    subject to sum damage x <= budget,   at most one alternative a choice,
               y = both choices of a pair are on,   and no codes that are known

The pairs carry what a precision border costs: with them a cut through a chain costs where it
lies, which no sum over layers can say.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeopt.search.codes import Codes
from edgeopt.search.table import Table

_GAP = 1e-3
_TOO_MUCH = 2.0
_NODES = 3000
"""A limit in nodes of the search tree, not in seconds: equal questions get equal answers."""


def best(table: Table, budget: float, known: Sequence[Codes]) -> Codes | None:
    """The codes of least predicted cost whose predicted damage keeps a budget.

    Args:
        table: Costs and damages.
        budget: Highest damage; infinity for none.
        known: Codes that must not come back.

    Returns:
        None where no codes are left within the budget, or none were found in the nodes allowed.
    """
    places = [(i, k) for i, row in enumerate(table.cost) for k in range(1, len(row))]
    if not places:
        nothing = tuple(0 for _ in table.cost)
        return None if nothing in known else nothing
    from scipy.optimize import milp

    edges = list(table.edges)
    size = len(places) + len(edges)
    rows, highest = _constraints(table, places, edges, budget, known)
    cost = [table.cost[i][k] for i, k in places] + [table.edges[pair] for pair in edges]
    whole = np.array([1] * len(places) + [0] * len(edges))
    found: Any = milp(
        np.array(cost),
        integrality=whole,
        bounds=_bounds(size),
        constraints=_linear(rows, highest),
        # Behind its presolver HiGHS 1.12 prints on stdout where it repairs a solution.
        options={"mip_rel_gap": _GAP, "node_limit": _NODES, "presolve": False},
    )
    if found.x is None:
        return None
    codes = [0] * len(table.cost)
    for (i, k), value in zip(places, found.x, strict=False):
        if value > 0.5:
            codes[i] = k
    made = tuple(codes)
    return None if made in known else made


def _bounds(size: int) -> Any:
    from scipy.optimize import Bounds

    lowest: Any = np.zeros(size)  # the annotations of SciPy's classes know numbers only
    highest: Any = np.ones(size)
    return Bounds(lowest, highest)


def _linear(rows: list[dict[int, float]], highest: list[float]) -> Any:
    from scipy.optimize import LinearConstraint
    from scipy.sparse import csr_matrix

    entries = [(n, j, value) for n, row in enumerate(rows) for j, value in row.items()]
    at, columns, values = zip(*entries, strict=True)
    limits: Any = np.array(highest)
    matrix = csr_matrix((values, (at, columns)), shape=(len(rows), 1 + max(columns)))
    return LinearConstraint(matrix, ub=limits)


def _constraints(
    table: Table,
    places: Sequence[tuple[int, int]],
    edges: Sequence[tuple[int, int]],
    budget: float,
    known: Sequence[Codes],
) -> tuple[list[dict[int, float]], list[float]]:
    """Rows (column to factor) and the highest value of each."""
    column = {place: n for n, place in enumerate(places)}
    on = [{column[i, k]: 1.0 for k in range(1, len(row))} for i, row in enumerate(table.cost)]
    rows = [dict(each) for each in on if each]
    highest = [1.0] * len(rows)
    # Touches every column, so that the matrix has its full width.
    rows.append(dict.fromkeys(range(len(places) + len(edges)), 1.0))
    highest.append(float(len(places) + len(edges)))
    for n, (i, j) in enumerate(edges, start=len(places)):
        rows += [
            {n: 1.0, **_times(on[i], -1.0)},
            {n: 1.0, **_times(on[j], -1.0)},
            {n: -1.0, **on[i], **on[j]},
        ]
        highest += [0.0, 0.0, 1.0]
    if np.isfinite(budget):
        rows.append({column[i, k]: _share(table.damage[i][k], budget) for i, k in places})
        highest.append(1.0)
    for codes in known:
        row: dict[int, float] = {}
        off = 0
        for i, code in enumerate(codes):
            row |= {column[i, code]: 1.0} if code else _times(on[i], -1.0)
            off += code == 0
        rows.append(row)
        highest.append(float(len(codes) - 1 - off))
    return rows, highest


def _share(damage: float, budget: float) -> float:
    """Damage over budget: damages are tiny, and the solver's tolerance (1e-6) is absolute."""
    if budget <= 0:
        return _TOO_MUCH if damage > 0 else 0.0
    return min(damage / budget, _TOO_MUCH)


def _times(row: dict[int, float], factor: float) -> dict[int, float]:
    return {column: factor * value for column, value in row.items()}
