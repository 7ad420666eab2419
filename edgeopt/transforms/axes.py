"""What the shapes around a node say about its channels, which are axis 1."""

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of


def rank_of(value: ir.Value) -> int | None:
    """Number of axes; None where it is not known."""
    return None if value.shape is None else len(value.shape)


def channels_of(value: ir.Value) -> int | None:
    """Size of axis 1; None where it is free or not known."""
    size = value.shape[1] if value.shape is not None and len(value.shape) > 1 else None
    return size if isinstance(size, int) else None


def one_pixel(value: ir.Value) -> bool:
    """Whether every channel of a value is one pixel."""
    made = value.producer()
    if made is not None and made.op_type in ("GlobalAveragePool", "GlobalMaxPool"):
        return True
    return (
        value.shape is not None and len(value.shape) >= 2 and all(d == 1 for d in value.shape[2:])
    )


def squeezes_pixels(node: ir.Node) -> bool:
    """Whether a Squeeze takes out nothing but axes behind the channels."""
    found = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
    source = node.inputs[0]
    rank = None if source is None else rank_of(source)
    return found is not None and rank is not None and all(int(a) % rank >= 2 for a in found)


def keeps_batch(target: np.ndarray[tuple[int, ...], np.dtype[np.int64]], source: ir.Value) -> bool:
    """Whether the first axis of a target is the source's: 0, -1 with a stated width, or equal."""
    batch = source.shape[0] if source.shape is not None else None
    first = int(target[0])
    return first in (0, -1) or first == batch
