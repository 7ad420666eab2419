"""The padding of a window operator, also where it is given by a word."""

from collections.abc import Sequence

import onnx_ir as ir

from edgeopt.transforms.local_rule import integers, word


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
