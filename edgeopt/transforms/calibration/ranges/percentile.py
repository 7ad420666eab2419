"""The middle p percent of all elements: half of the rest is clipped at either end."""

from dataclasses import dataclass

import numpy as np

from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.observation import BINS, Observation


@dataclass(frozen=True, slots=True)
class Percentile:
    """Whole bins that hold at least the share, within the extremes.

    Args:
        percent: Over 50, at most 100.
    """

    percent: float

    def __call__(self, seen: Observation) -> Range:
        """The range of the middle share."""
        total = float(seen.counts.sum())
        tail = total * (1 - self.percent / 100) / 2
        below = np.cumsum(seen.counts)
        first = int(np.searchsorted(below, tail, side="right"))
        last = int(np.searchsorted(below, total - tail, side="left"))
        width = 2 * seen.limit / BINS
        low, high = first * width - seen.limit, (last + 1) * width - seen.limit
        return Range(low=max(low, seen.low), high=min(high, seen.high))


PLUGIN = Percentile
