"""Nodes that keep some positions of one axis: Gather of constant indices, Slice, Split."""

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.local_rule import input_of, integer

FAR = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Part:
    """Which positions of one axis.

    Args:
        axis: The axis.
        indices: The positions; as many zeros where they are given at run time.
        given: The input of the model that names them; None where they are constant.
    """

    axis: int
    indices: tuple[int, ...]
    given: ir.Value | None = None


def selection_of(node: ir.Node) -> tuple[Part, bool] | None:
    """What a node selects along one axis, and whether that axis goes; None for other nodes."""
    source = node.inputs[0] if node.inputs else None
    if node.domain or source is None or source.shape is None:
        return None
    if node.op_type == "Gather":
        return _gathered(node, source.shape)
    if node.op_type == "Slice":
        return _sliced(node, source.shape)
    return _split(node, source.shape) if node.op_type == "Split" else None


def given_of(node: ir.Node) -> tuple[Part, bool] | None:
    """What a Gather selects by a number, or a few, that are an input of the model."""
    source, index = input_of(node, 0), input_of(node, 1)
    if node.op_type != "Gather" or node.domain or source is None or index is None:
        return None
    maker = index.producer()
    asked = index if maker is None or maker.op_type != "Unsqueeze" else maker.inputs[0]
    if asked is None or not asked.is_graph_input() or asked.graph is not node.graph:
        return None
    if source.shape is None or asked.shape is None or index.shape is None or len(index.shape) > 1:
        return None
    count = index.shape[0] if len(index.shape) else 1
    axis = integer(node, "axis", 0) % len(source.shape)
    if not isinstance(count, int) or not count:
        return None
    return Part(axis, (0,) * count, asked), not len(index.shape)


def result_of(node: ir.Node) -> ir.Value:
    """The output of a selection that is in use."""
    return next(v for v in node.outputs if v.uses() or v.is_graph_output())


def _gathered(node: ir.Node, shape: ir.ShapeProtocol) -> tuple[Part, bool] | None:
    found = array_of(input_of(node, 1))
    if found is None or found.ndim > 1 or not found.size:
        return None
    axis = integer(node, "axis", 0) % len(shape)
    size, indices = shape[axis], [int(one) for one in found.reshape(-1)]
    if isinstance(size, int):
        return _part(axis, (one % size for one in indices)), found.ndim == 0
    return None if any(one < 0 for one in indices) else (_part(axis, indices), found.ndim == 0)


def _part(axis: int, indices: Iterable[int]) -> Part:
    return Part(axis, tuple(indices))


def _sliced(node: ir.Node, shape: ir.ShapeProtocol) -> tuple[Part, bool] | None:
    starts, ends, axes, steps = (array_of(input_of(node, index)) for index in range(1, 5))
    if starts is None or ends is None or axes is None or len(starts) != 1:
        return None
    if steps is None and input_of(node, 4) is not None:
        return None
    axis, step = int(axes[0]) % len(shape), 1 if steps is None else int(steps[0])
    size, start, end = shape[axis], int(starts[0]), int(ends[0])
    if isinstance(size, int):
        kept = range(size)[start:end:step]
    else:
        # A free size may be too short for what is asked for: only the first is always there.
        kept = range(1) if (start, end, step) == (0, 1, 1) else range(0)
    return (_part(axis, kept), False) if kept else None


def _split(node: ir.Node, shape: ir.ShapeProtocol) -> tuple[Part, bool] | None:
    used = [i for i, value in enumerate(node.outputs) if value.uses() or value.is_graph_output()]
    axis = integer(node, "axis", 0) % len(shape)
    shapes = [value.shape for value in node.outputs]
    found = [None if one is None else one[axis] for one in shapes]
    sizes = [size for size in found if isinstance(size, int)]
    if len(used) != 1 or len(sizes) != len(found):
        return None
    start = sum(sizes[: used[0]])
    return _part(axis, range(start, start + sizes[used[0]])), False
