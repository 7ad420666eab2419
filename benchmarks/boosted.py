"""Boosted regression trees over binary columns, for the simulators of recorded.py."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_TREES, _RATE, _LEAVES = 60, 0.15, 5


class Trees:
    """Boosted regression trees over binary columns.

    Args:
        rows: [n, columns] of 0 and 1.
        values: [n].
    """

    def __init__(self, rows: Floats, values: Floats) -> None:
        self._trees: list[tuple[Any, ...]] = []
        left = values.copy()
        on = rows > 0.5
        for _ in range(_TREES):
            tree = _grown(on, left, 3)
            self._trees.append(tree)
            left = left - _RATE * _said(tree, on)

    def predict(self, rows: Floats) -> Floats:
        """[n] for rows [n, columns]."""
        on = rows > 0.5
        return np.asarray(_RATE * sum(_said(tree, on) for tree in self._trees), dtype=np.float64)


def _grown(on: npt.NDArray[np.bool_], values: Floats, depth: int) -> tuple[Any, ...]:
    count, total = len(values), float(values.sum())
    with_ = on.sum(axis=0)
    sums = values @ on
    fits = (with_ >= _LEAVES) & (count - with_ >= _LEAVES)
    if not depth or not fits.any():
        return (total / max(count, 1),)
    gain = np.where(
        fits,
        sums**2 / np.maximum(with_, 1) + (total - sums) ** 2 / np.maximum(count - with_, 1),
        -np.inf,
    )
    column = int(np.argmax(gain))
    side = on[:, column]
    return (
        column,
        _grown(on[side], values[side], depth - 1),
        _grown(on[~side], values[~side], depth - 1),
    )


def _said(tree: tuple[Any, ...], on: npt.NDArray[np.bool_]) -> Floats:
    if len(tree) == 1:
        return np.full(len(on), tree[0])
    if len(on) == 1:
        return np.array([_leaf(tree, on[0])])
    column, yes, no = tree
    found = np.zeros(len(on))
    side = on[:, column]
    found[side] = _said(yes, on[side])
    found[~side] = _said(no, on[~side])
    return found


def _leaf(tree: tuple[Any, ...], on: npt.NDArray[np.bool_]) -> float:
    """What a tree says of one row."""
    while len(tree) > 1:
        column, yes, no = tree
        tree = yes if on[column] else no
    return float(tree[0])
