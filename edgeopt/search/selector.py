"""Which of many proposals to measure next: those that should gain most hypervolume.

The part of the objective space that the front leaves open is held as points drawn in it; what a
row gains is the share of them that it would dominate, in the mean over draws from what is
predicted. The draws are of all rows together: plans that share a layer which may hurt more than is
believed lose together, and what a pick covers in the draws in which it holds stays open in the
others. So a batch takes the bold plan and the safe one, not rungs of one idea that miss the bound
together (greedy q-EHVI: Daulton, Balandat and Bakshy 2020). A second set of points lies on the
edge where only the first objective and the bounds count: the fastest feasible candidate is what
most people take, and a volume alone would trade it for corners that nobody looks at.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.search.surrogate import Forecast

Floats = npt.NDArray[np.float64]
_POINTS = 800
_EDGE = 200
DRAWS = 12
"""Of all rows together; even."""
_WORST = 0.1
"""Reference: so much above the baseline, where no bound is tighter."""
_MARGIN = 0.05
_FEW = 1e-3
"""Weight of being feasible at all, which decides only where nothing gains."""


class Selector:
    """Expected gains over a front.

    Args:
        front: Relative costs [members, objectives] of what was measured, feasible or not.
        limits: Worst feasible values [objectives]; infinity without a bound.
        forecast: Of the proposals.
        generator: Draws points.
        losses: Objectives that count as nothing below 0: accuracy above the baseline's is luck.
        deviations: [draws, rows, objectives] of truth less forecast, in spreads.
    """

    def __init__(
        self,
        front: Floats,
        limits: Floats,
        forecast: Forecast,
        generator: np.random.Generator,
        losses: Collection[int] = (),
        *,
        deviations: Floats,
    ) -> None:
        size = forecast.means.shape[1]
        floor = np.array([0.0 if n in losses else -np.inf for n in range(size)])
        worst = np.minimum(limits, _WORST)
        drawn = np.maximum(forecast.means + forecast.spreads * deviations, floor)
        points, weights = _open(front, worst, drawn, floor, generator)
        self._below = _dominated(drawn, points)
        self._left = np.repeat(weights[None].astype(np.float32), len(drawn), axis=0)
        kept = (drawn <= worst).all(axis=2).mean(axis=0)
        self._works = forecast.works
        self._even = _FEW * kept * self._works / max(len(points), 1)

    def gains(self) -> Floats:
        """Expected gain [rows] over the front and what was picked."""
        each = np.matmul(self._below, self._left[:, :, None])[:, :, 0]
        return np.asarray(self._works * each.mean(axis=0) + self._even, dtype=np.float64)

    def pick(self, count: int, origin: Sequence[str], quota: Mapping[str, int]) -> list[int]:
        """Rows, the best first.

        Args:
            count: How many at most.
            origin: Of each row.
            quota: How many of an origin at most; those without a quota give none.
        """
        left = dict(quota)
        found: list[int] = []
        open_ = np.array([left.get(name, 0) > 0 for name in origin], dtype=np.bool_)
        while len(found) < count and open_.any():
            gains = np.where(open_, self.gains(), -1.0)
            best = int(np.argmax(gains))
            found.append(best)
            left[origin[best]] -= 1
            open_[best] = False
            if left[origin[best]] <= 0:
                open_ &= np.array([name != origin[best] for name in origin])
            self._left *= 1.0 - self._below[:, best]
        return found


def _dominated(drawn: Floats, points: Floats) -> npt.NDArray[np.float32]:
    """1 where a draw [draws, rows, objectives] is below a point: [draws, rows, points]."""
    below = np.ones((*drawn.shape[:2], len(points)), dtype=np.bool_)
    for n in range(points.shape[1]):
        below &= drawn[:, :, None, n] <= points[None, None, :, n]
    return below.astype(np.float32)


def _open(
    front: Floats,
    worst: Floats,
    drawn: Floats,
    floor: Floats,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Points that no member of the front dominates, and what each counts."""
    size = len(worst)
    front = np.maximum(front, floor)
    low = np.minimum(drawn.reshape(-1, size).min(axis=0), front.min(axis=0, initial=np.inf))
    low = np.minimum(np.maximum(low, -1.0), worst - 1e-6)
    box = low + (worst - low) * generator.random((_POINTS, size))
    edge = np.repeat(worst[None, :], _EDGE, axis=0)
    edge[:, 0] = low[0] + (worst[0] - low[0]) * (np.arange(_EDGE) + 0.5) / _EDGE
    points = np.concatenate([box, edge])
    weights = np.concatenate([np.full(_POINTS, 1 / _POINTS), np.full(_EDGE, 1 / _EDGE)])
    if len(front):
        covered = (front[:, None, :] <= points).all(axis=2).any(axis=0)
        points, weights = points[~covered], weights[~covered]
    return points, weights
