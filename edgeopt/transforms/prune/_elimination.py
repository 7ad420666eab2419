"""Backward elimination on one layer: what each unit's removal costs, and the others solved anew.

With C the covariance of what a layer reads, P its inverse and Q = W W' the products of its weights,
the removal of the places j of a unit costs tr(P_jj^-1 Q_jj). Afterwards

    P <- P - P_j P_jj^-1 P_j'        Q <- Q - G Q_j' - Q_j G' + G Q_jj G',   G = P_j P_jj^-1

Of both only the columns of the next unit and the blocks on the diagonal are needed at once, so the
whole matrices are brought up to date for many units together, as one product of matrices: a
thousandfold of small updates is bound by memory, and took minutes on a layer that reads 1536.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.channels.groups import Indices
from edgeopt.transforms.prune._readers import Reader

Floats = npt.NDArray[np.floating[Any]]
_RIDGE = 1e-3
"""Of the mean variance: samples are few."""
_PENDING = 64
"""Columns whose updates are done together."""


class Problem:
    """One layer that reads the channels, and what is left of them.

    Args:
        reader: With covariance and products.
        count: Units of the group; not all need to be read here.
    """

    def __init__(self, reader: Reader, count: int) -> None:
        assert reader.covariance is not None, "the caller looked"
        assert reader.products is not None, "they are there together"
        size = len(reader.units)
        self._inverse = np.linalg.inv(_definite(reader.covariance))
        self._products = reader.products.copy()
        self._share = 1 / max(float((reader.covariance * reader.products).sum()), 1e-30)
        self._places = _places(reader.units, count)
        self._there = self._places >= 0
        self._nothing: Floats = np.eye(int(self._places.shape[1]))
        self._inverses = self._blocks(self._inverse, self._nothing)
        self._weights = self._blocks(self._products, 0 * self._nothing)
        self._pending = 0
        room = (size, _PENDING + len(self._nothing))
        self._roots: Floats = np.zeros(room, order="F")
        self._left: Floats = np.zeros(room, order="F")
        self._right: Floats = np.zeros(room, order="F")

    def costs(self) -> Floats:
        """What the removal of each unit adds to the error [units]; of removed ones 0."""
        if self._inverses.shape[1] == 1:
            return self._share * (self._weights / self._inverses)[:, 0, 0]
        solved = np.linalg.solve(self._inverses, self._weights)
        return self._share * np.trace(solved, axis1=1, axis2=2)

    def remove(self, unit: int) -> None:
        """Solve anew without a unit."""
        at = self._places[unit][self._there[unit]]
        if not len(at):
            return
        columns, rows = self._now(at)
        root = np.linalg.cholesky(columns[at])
        half = np.linalg.solve(root, columns.T).T
        gain = np.linalg.solve(root.T, half.T).T
        moved = rows - gain @ rows[at] / 2
        new = slice(self._pending, self._pending + len(at))
        self._roots[:, new], self._left[:, new], self._right[:, new] = half, gain, moved
        self._pending = new.stop
        self._update_blocks(half, gain, moved)
        self._there[unit] = False
        self._inverses[unit] = self._nothing
        self._weights[unit] = 0.0
        if self._pending >= _PENDING:
            self._settle()

    def _now(self, at: Indices) -> tuple[Floats, Floats]:
        """Columns of both matrices, with all that is pending."""
        columns, rows = self._inverse[:, at], self._products[:, at]
        if self._pending:
            root, left, right = self._updates()
            columns = columns - root @ root[at].T
            rows = rows - left @ right[at].T - right @ left[at].T
        return columns, rows

    def _updates(self) -> tuple[Floats, Floats, Floats]:
        done = slice(0, self._pending)
        return self._roots[:, done], self._left[:, done], self._right[:, done]

    def _settle(self) -> None:
        root, left, right = self._updates()
        self._inverse -= root @ root.T
        both = left @ right.T
        self._products -= both
        self._products -= both.T
        self._pending = 0

    def _blocks(self, matrix: Floats, padding: Floats) -> Floats:
        """Blocks on the diagonal [units, places, places]; where a unit has fewer, padding."""
        at = np.maximum(self._places, 0)
        both = self._there[:, :, None] & self._there[:, None, :]
        return np.where(both, matrix[at[:, :, None], at[:, None, :]], padding)

    def _update_blocks(self, half: Floats, gain: Floats, moved: Floats) -> None:
        root, left, right = (self._by_unit(each) for each in (half, gain, moved))
        both = left @ right.transpose(0, 2, 1)
        self._inverses -= root @ root.transpose(0, 2, 1)
        self._weights -= both + both.transpose(0, 2, 1)

    def _by_unit(self, rows: Floats) -> Floats:
        """Rows of the places of each unit [units, places, columns]; 0 where it has fewer."""
        return np.where(self._there[:, :, None], rows[np.maximum(self._places, 0)], 0.0)


def _places(units: Indices, count: int) -> Indices:
    """Places of each unit [units, most places of one], filled up with -1."""
    order = np.argsort(units, kind="stable")
    each = np.bincount(units, minlength=count)
    found = np.full((count, max(int(each.max()), 1)), -1, np.int64)
    within = np.arange(len(units)) - np.repeat(np.cumsum(each) - each, each)
    found[units[order], within] = order
    return found


def _definite(covariance: Floats) -> Floats:
    """With the least ridge that leaves no variance below 0.

    Where a channel hardly differs from its mean, as behind a Relu that is nearly always 0, the
    difference of two large sums is less than 0 by rounding.
    """
    size = len(covariance)
    ridge = _RIDGE * max(float(np.trace(covariance)) / size, 1e-30)
    while not _has_root(made := covariance + ridge * np.eye(size)):
        ridge *= 10
    return made


def _has_root(matrix: Floats) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return not np.isfinite(matrix).all()
    return True
