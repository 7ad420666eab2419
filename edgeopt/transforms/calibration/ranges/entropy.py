"""The range whose coded distribution diverges least from the one that was seen.

"8-bit Inference with TensorRT" (Migacz, GTC 2017): for each border the histogram within it, with
what is clipped added to its outermost bins, is compared with the same in 128 levels by the
Kullback-Leibler divergence. Borders are symmetric and then cut to the extremes.
"""

import numpy as np

from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.observation import BINS, Floats, Observation

_LEVELS = 128
_STEP = 16


def least_divergence(seen: Observation) -> Range:
    """Borders of the least divergence, within the extremes."""
    if seen.low == seen.high:
        return Range(low=seen.low, high=seen.high)
    half = BINS // 2
    farthest = max(-seen.low, seen.high) / seen.limit * half
    last = min(int(np.ceil(farthest / _STEP)) * _STEP, half)
    sides = 1 if seen.low >= 0 or seen.high <= 0 else 2
    first = max(_LEVELS // sides, _STEP)
    borders = range(min(first, last), last + 1, _STEP)
    folded = seen.counts if sides == 2 else _magnitudes(seen.counts)
    found = [_divergence(folded, border, sides) for border in borders]
    border = borders[int(np.argmin(found))] / half * seen.limit
    return Range(low=max(-border, seen.low), high=min(border, seen.high))


def _magnitudes(counts: Floats) -> Floats:
    half = BINS // 2
    return counts[half:] + counts[:half][::-1]


def _divergence(counts: Floats, border: int, sides: int) -> float:
    middle = BINS // 2 if sides == 2 else 0
    start, end = (middle - border if sides == 2 else 0), middle + border
    inside = counts[start:end]
    clipped = inside.copy()
    clipped[0] += counts[:start].sum()
    clipped[-1] += counts[end:].sum()
    level = np.arange(inside.size) * _LEVELS // inside.size
    held = inside > 0
    sums = np.bincount(level, inside, minlength=_LEVELS)
    sizes = np.bincount(level, held, minlength=_LEVELS)
    coded = np.where(held, (sums / np.maximum(sizes, 1))[level], 0.0)
    wanted, made = clipped / clipped.sum(), coded / max(coded.sum(), 1e-30)
    seen = wanted > 0
    return float((wanted[seen] * np.log(wanted[seen] / np.maximum(made[seen], 1e-9))).sum())


PLUGIN = least_divergence
