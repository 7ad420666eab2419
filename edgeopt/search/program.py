"""The one typed door to SciPy's integer programs: the best codes by a table, within a budget.

    minimise   sum cost x + sum edge y
    subject to sum damage x <= budget,   at most one alternative a choice,
               y = both choices of a pair are on,   and no codes that are known

The pairs carry what a precision border costs: with them a cut through a chain costs where it
lies, which no sum over layers can say.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import ctypes
import os
import sys
import threading
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgeopt.search.codes import Codes
from edgeopt.search.table import Table

_GAP = 1e-3
_STDOUT, _STDERR = 1, 2
_SOLVING = threading.Lock()  # descriptors belong to the process, and searches may run in threads
_TOO_MUCH = 2.0
_NODES = 3000
"""A limit in nodes of the search tree, not in seconds: equal questions get equal answers."""


def best(
    table: Table, budget: float, known: Sequence[Codes], loud: Collection[int] | None = None
) -> Codes | None:
    """The codes of least predicted cost whose predicted damage keeps a budget.

    Args:
        table: Costs and damages.
        budget: Highest damage; infinity for none.
        known: Codes that must not come back.
        loud: Choices in which an answer must differ from all that is known; all of them where
            none are named. The others may be what they like.

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
    rows, highest = _constraints(table, places, edges, budget)
    counted = range(len(table.cost)) if loud is None else loud
    for each in known:
        row, limit = _cut(table, places, each, counted)
        rows.append(row)
        highest.append(limit)
    cost = [table.cost[i][k] for i, k in places] + [table.edges[pair] for pair in edges]
    with _quiet():
        found: Any = milp(
            np.array(cost),
            integrality=np.ones(size),
            bounds=_bounds(size),
            constraints=_linear(rows, highest),
            options={"mip_rel_gap": _GAP, "node_limit": _NODES},
        )
    if found.x is None:
        return None
    codes = [0] * len(table.cost)
    for (i, k), value in zip(places, found.x, strict=False):
        if value > 0.5:
            codes[i] = k
    return tuple(codes)


@contextmanager
def _quiet() -> Generator[None]:
    """What is printed meanwhile goes to stderr: HiGHS 1.12 left a printf where it mends a solution,
    which no option turns off, and stdout belongs to results (one JSON document)."""
    with _SOLVING:
        yield from _redirected()


def _redirected() -> Generator[None]:
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    try:
        kept = os.dup(_STDOUT)
    except OSError:  # closed: nobody reads it
        yield
        return
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, _STDOUT)
        os.close(kept)


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
    return rows, highest


def _cut(
    table: Table, places: Sequence[tuple[int, int]], codes: Codes, loud: Collection[int]
) -> tuple[dict[int, float], float]:
    """At least one of the loud choices is another one: row and highest value."""
    column = {place: n for n, place in enumerate(places)}
    row: dict[int, float] = {}
    for i in loud:
        if codes[i]:
            row[column[i, codes[i]]] = 1.0
        else:
            row |= {column[i, k]: -1.0 for k in range(1, len(table.cost[i]))}
    return row, float(sum(codes[i] > 0 for i in loud) - 1)


def _share(damage: float, budget: float) -> float:
    """Damage over budget: damages are tiny, and the solver's tolerance (1e-6) is absolute."""
    if budget <= 0:
        return _TOO_MUCH if damage > 0 else 0.0
    return min(round(damage / budget, 4), _TOO_MUCH)


def _times(row: dict[int, float], factor: float) -> dict[int, float]:
    return {column: factor * value for column, value in row.items()}
