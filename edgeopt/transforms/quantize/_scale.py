"""Scale and zero point of a range of real values: real = scale * (code - zero)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.base import Range

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
    zero = int(np.clip(round(lowest - low / float(scale)), lowest, highest))
    return Scale(scale=np.asarray(scale), zero=np.asarray(zero, dtype))
