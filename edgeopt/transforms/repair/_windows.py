"""Windows of an operator: its padding, also where it is given by a word, and what they hold."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.transforms.local_rule import integers, word

Array = npt.NDArray[Any]


def taps(
    padded: Array,
    batch: Array,
    start: Sequence[Array],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Array:
    """What stands under each tap of the windows at some places [places, channels, taps].

    Args:
        padded: [batch, channels, ...], with its margins.
        batch: Sample of each place.
        start: Index of each place in the result, axis by axis.
        kernel, strides, dilations: By axis.
    """
    found: list[Array] = []
    for offset in itertools.product(*(range(size) for size in kernel)):
        where = [
            begin * stride + tap * step
            for begin, stride, tap, step in zip(start, strides, offset, dilations, strict=True)
        ]
        found.append(padded[(batch, slice(None), *where)])
    return np.stack(found, axis=2)


def margins(
    node: ir.Node, sizes: Sequence[int], kernel: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after, by axis, of a Conv or a pool over a map of some sizes."""
    axes = len(kernel)
    kind = word(node, "auto_pad", "NOTSET")
    if kind not in ("SAME_UPPER", "SAME_LOWER"):
        pads = (0,) * 2 * axes if kind == "VALID" else integers(node, "pads") or (0,) * 2 * axes
        return pads[:axes], pads[axes:]
    strides = integers(node, "strides") or (1,) * axes
    dilations = integers(node, "dilations") or (1,) * axes
    missing = [
        max((-(-size // stride) - 1) * stride + (taps - 1) * step + 1 - size, 0)
        for size, taps, stride, step in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    fewer, more = tuple(m // 2 for m in missing), tuple(m - m // 2 for m in missing)
    return (fewer, more) if kind == "SAME_UPPER" else (more, fewer)
