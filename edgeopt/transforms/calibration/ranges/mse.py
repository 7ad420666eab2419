"""The range whose 256 even steps leave the least squared error over all elements seen.

Within the range the error of a step d is d^2/12 an element, exact zeros have none; outside it is
the distance to the border. Both ends move in turn until neither gains.
"""

import numpy as np

from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.observation import Floats, Observation

_SHARES = np.linspace(0.2, 1.0, 81)
_ROUNDS = 4


def least_error(seen: Observation) -> Range:
    """Ends within the extremes that have the least error."""
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if low == high:
        return Range(low=seen.low, high=seen.high)
    lows, highs = low * _SHARES, high * _SHARES
    centres, counts = seen.centres, seen.counts
    for _ in range(_ROUNDS):
        before = low, high
        high = float(highs[np.argmin([_error(centres, counts, low, h, seen.zeros) for h in highs])])
        low = float(lows[np.argmin([_error(centres, counts, v, high, seen.zeros) for v in lows])])
        if (low, high) == before:
            break
    return Range(low=max(low, seen.low), high=min(high, seen.high))


def _error(centres: Floats, counts: Floats, low: float, high: float, zeros: float) -> float:
    clipped = centres - np.clip(centres, low, high)
    inside = counts[clipped == 0].sum() - zeros
    step = (high - low) / 255
    return float((counts * clipped**2).sum() + max(inside, 0.0) * step**2 / 12)


PLUGIN = least_error
