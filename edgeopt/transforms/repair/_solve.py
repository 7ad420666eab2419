"""Least squares from sums: `Sums` takes in samples piece by piece and never keeps them.

minimise over W, b:   |Y - W X - b|^2 + ridge * mean(diag(Xc Xc^T)) * |W - W_old|^2

with Xc = X - mean X; b follows from W and the means. Products are summed about the means of the
first piece, in float64: sums of squares about zero lose the small differences.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_LEAST = 1e-12


class Sums:
    """What the solution depends on: [groups, K, K] and [groups, out, K] numbers.

    Args:
        groups: Independent problems of one shape.
        inputs: K.
        outputs: Rows of W in a group.
    """

    def __init__(self, groups: int, inputs: int, outputs: int) -> None:
        self.count = 0
        self._power = np.zeros((groups, inputs, inputs))
        self._cross = np.zeros((groups, outputs, inputs))
        self._x = np.zeros((groups, inputs))
        self._y = np.zeros((groups, outputs))
        self._about: tuple[Array, Array] | None = None

    def add(self, x: Array, y: Array) -> None:
        """Take in x [groups, K, places] and y [groups, out, places]."""
        if self._about is None:
            self._about = x.mean(axis=2, keepdims=True), y.mean(axis=2, keepdims=True)
        x, y = x - self._about[0], y - self._about[1]
        self.count += x.shape[2]
        self._power += x @ x.transpose(0, 2, 1)
        self._cross += y @ x.transpose(0, 2, 1)
        self._x += x.sum(axis=2, dtype=np.float64)
        self._y += y.sum(axis=2, dtype=np.float64)

    def solved(self, old: Array, ridge: float, *, bias: bool) -> tuple[Floats, Floats]:
        """W [groups, out, K] and b [groups, out].

        Args:
            old: W as it is.
            ridge: Weight of the distance to it.
            bias: Whether b is free; else it is 0.
        """
        assert self._about is not None, "nothing was added"
        about_x, about_y = (each[..., 0].astype(np.float64) for each in self._about)
        mean_x, mean_y = self._x / self.count, self._y / self.count
        if not bias:
            mean_x, mean_y = -about_x, -about_y  # sums about zero
        power = self._centred(self._power, self._x, self._x, mean_x, mean_x)
        cross = self._centred(self._cross, self._y, self._x, mean_y, mean_x)
        spread = np.trace(power, axis1=1, axis2=2) / power.shape[1]
        eye = np.eye(power.shape[1]) * (ridge * spread + _LEAST)[:, None, None]
        given = old.astype(np.float64)
        missing = cross - given @ power
        step = _solution(power + eye, missing.transpose(0, 2, 1))
        weight = given + step.transpose(0, 2, 1)
        if not bias:
            return weight, np.zeros_like(mean_y)
        return weight, (mean_y + about_y) - _times(weight, mean_x + about_x)

    def _centred(self, product: Floats, a: Floats, b: Floats, at_a: Floats, at_b: Floats) -> Floats:
        """Sum of (a - at_a)(b - at_b)^T from the sum of a b^T and those of a and of b."""
        outer = a[:, :, None] * at_b[:, None, :] + at_a[:, :, None] * b[:, None, :]
        return product - outer + self.count * at_a[:, :, None] * at_b[:, None, :]


def _times(matrix: Floats, vector: Floats) -> Floats:
    return np.einsum("gok,gk->go", matrix, vector)


def _solution(matrix: Any, right: Any) -> Floats:
    """Of a system in each group; typed here, since numpy's own types say nothing of it."""
    solve: Any = np.linalg.solve
    return solve(matrix, right)
