"""Scale and zero point of a range of real values: real = scale * (code - zero)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.base import Range

_LEAST_GATE = 16
"""A HardSwish gate has at least twice so many steps between 0 and 1."""
LIMITS = {"uint8": (0, 255), "int8": (-127, 127)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How one activation is coded.

    Args:
        scale: Float32, positive and normal.
        zero: The code of 0.0, of the activation's type.
    """

    scale: npt.NDArray[Any]
    zero: npt.NDArray[Any]


@lru_cache(maxsize=65536)
def scale_of(found: Range, dtype: str) -> Scale:
    """The finest scale that covers a range and codes 0.0 exactly (padding is made of zeros).

    uint8 is asymmetric; int8 is symmetric with zero point 0, which TensorRT asks for.
    """
    lowest, highest = LIMITS[dtype]
    low, high = min(found.low, 0.0), max(found.high, 0.0)
    if dtype == "int8":
        low, high = -max(-low, high), max(-low, high)
    scale = np.float32((high - low) / (highest - lowest))
    if scale < np.finfo(np.float32).tiny:
        scale = np.float32(1.0)
    elif low == 0.0 and np.float32(highest) * scale > np.float32(high):
        # A Clip at `high` is fused only where no code lies above it; rounding may put one there.
        scale = np.nextafter(scale, np.float32(0.0))
    shift = 0 if dtype == "int8" else round(lowest - low / float(scale))
    zero = int(np.clip(shift, lowest, highest))
    return Scale(scale=np.asarray(scale), zero=np.asarray(zero, dtype))


def gate_scale_of(found: Range) -> Scale | None:
    """How x is coded before a HardSwish in integers: code 0 is -3, below which the result is 0.

    With zero * scale = 3, HardSigmoid(x) = clip(x + 3, 0, 6) / 6 is clip(code, 0, 2 * zero) *
    scale / 6: a Clip of the codes, read at another scale. None where the range is too
    wide for such a zero.
    """
    zero = int(3 * 255 / (max(found.high, 0.0) + 3))
    if zero < _LEAST_GATE:
        return None
    return Scale(scale=np.asarray(3 / zero, np.float32), zero=np.asarray(zero, np.uint8))
