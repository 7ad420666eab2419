"""Layers with weights: they read channels, and make channels of their own."""

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.channels.edits import Count
from edgeopt.transforms.channels.labels import Axis, repeated
from edgeopt.transforms.channels.walk import Walk, constant_shape, is_constant, rule, size_of

_COMPUTED = "its weight is computed"
_LEAST_RANK = 3


@rule("Conv", opens=True)
def conv(walk: Walk, node: ir.Node) -> str | None:
    """Dense, grouped and depthwise: weight [out, in / groups, ...]."""
    shape, source = constant_shape(node.inputs[1]), node.inputs[0]
    if shape is None or source is None or not _bias_is_constant(node):
        return _COMPUTED
    axes, groups = walk.of(source), node.attributes.get_int("group", 1) or 1
    read = _channel_axis(walk, node, axes)
    if groups == 1:
        if not walk.cut(node, 1, 1, read, reads=(source, 1)):
            return _COMPUTED
        made: Axis = (walk.open(node.outputs[0], shape[0]),)
    elif shape[1] == 1:
        made = repeated(read, shape[0] // groups)
        if read:
            walk.edits.append(Count(node, "group", read))
    else:
        rows = _tied_groups(walk, read, groups)
        if not walk.cut(node, 1, 1, rows, reads=(source, 1)):
            return _COMPUTED
        atoms = walk.open(node.outputs[0], shape[0] // groups, groups)
        made = (np.tile(atoms, groups),)
    if not walk.cut(node, 1, 0, made) or not walk.cut_if_there(node, 2, made):
        walk.freeze((made,), f"the weight of {node.outputs[0].name!r} is shared in another form")
    _put(walk, node, axes, made)
    return None


@rule("ConvTranspose", opens=True)
def conv_transpose(walk: Walk, node: ir.Node) -> str | None:
    """Weight [in, out / groups, ...]."""
    shape, source = constant_shape(node.inputs[1]), node.inputs[0]
    if shape is None or source is None or not _bias_is_constant(node):
        return _COMPUTED
    axes, groups = walk.of(source), node.attributes.get_int("group", 1) or 1
    read = _channel_axis(walk, node, axes)
    if groups > 1 and groups == shape[0] and shape[1] == 1:
        made = read
        if read:
            walk.edits.append(Count(node, "group", read))
            walk.cut(node, 1, 0, read)
    else:
        tied = _tied_groups(walk, read, groups) if groups > 1 else read
        whole = tuple(np.tile(labels, groups) for labels in tied)
        if not walk.cut(node, 1, 0, whole, reads=(source, 1)):
            return _COMPUTED
        atoms = walk.open(node.outputs[0], shape[1], groups)
        made = (np.tile(atoms, groups),)
        walk.cut(node, 1, 1, (atoms,))
    walk.cut_if_there(node, 2, made)
    _put(walk, node, axes, made)
    return None


@rule("Gemm", opens=True)
def gemm(walk: Walk, node: ir.Node) -> str | None:
    """Weight [in, out], or [out, in] with transB."""
    shape, source = constant_shape(node.inputs[1]), node.inputs[0]
    if shape is None or source is None or node.attributes.get_int("transA", 0):
        return _COMPUTED
    if not _bias_is_constant(node):
        return "its bias is computed"
    axes = walk.of(source)
    walk.freeze(axes[:1], "a layer has them as its batch")
    row = 0 if node.attributes.get_int("transB", 0) else 1
    read = axes[1] if len(axes) > 1 else ()
    if not walk.cut(node, 1, 1 - row, read, reads=(source, 1)):
        return _COMPUTED
    made: Axis = (walk.open(node.outputs[0], shape[row]),)
    walk.cut(node, 1, row, made)
    walk.cut_if_there(node, 2, made)
    walk.put(node.outputs[0], ((), made))
    return None


@rule("MatMul", opens=True)
def matmul(walk: Walk, node: ir.Node) -> str | None:
    """A constant on either side, or two activations."""
    left, right = node.inputs
    if is_constant(right):
        return _by_matrix(walk, node, 1)
    if is_constant(left):
        return _by_matrix(walk, node, 0)
    one, other = walk.of(left), walk.of(right)
    if len(one) < 2 or len(other) < 2:
        return "its rank is not known"
    walk.freeze((one[-1], other[-2]), "a product of two activations sums over them")
    rank = max(len(one), len(other))
    batch: list[Axis] = []
    for axis in range(-rank, -2):
        pair = [
            (axes[axis], size_of(value, axis))
            for axes, value in ((one, left), (other, right))
            if len(axes) >= -axis
        ]
        batch.append(tied_or_spread(walk, pair, f"they meet MatMul {node.outputs[0].name!r}"))
    walk.put(node.outputs[0], (*batch, one[-2], other[-1]))
    return None


def tied_or_spread(walk: Walk, operands: list[tuple[Axis, int | None]], reason: str) -> Axis:
    """The axis of a broadcast of activations, each with its own axis and its size."""
    held = [axis for axis, _ in operands if axis]
    if not held:
        return ()
    width = max(len(axis[0]) for axis in held)
    if any(not axis and size != 1 for axis, size in operands):
        walk.freeze(held, reason)
        return ()
    narrow = [axis for axis in held if len(axis[0]) != width]
    walk.freeze(narrow, reason)
    found = [axis for axis in held if len(axis[0]) == width]
    made = found[0]
    for axis in found[1:]:
        made = walk.tie(made, axis, reason)
    return made


def _by_matrix(walk: Walk, node: ir.Node, side: int) -> str | None:
    """A product with a constant matrix on the right [in, out] or on the left [out, in]."""
    shape, source = constant_shape(node.inputs[side]), node.inputs[1 - side]
    axes = walk.of(source)
    if shape is None or source is None or not axes:
        return _COMPUTED
    if len(shape) != 2 or (side == 0 and len(axes) < 2):
        return "its weight has a batch"
    axis = len(axes) - 1 if side else len(axes) - 2
    if not walk.cut(node, side, 1 - side, axes[axis], reads=(source, axis)):
        return _COMPUTED
    made: Axis = (walk.open(node.outputs[0], shape[side]),)
    walk.cut(node, side, side, made)
    walk.put(node.outputs[0], (*axes[:axis], made, *axes[axis + 1 :]))
    return None


def _bias_is_constant(node: ir.Node) -> bool:
    return len(node.inputs) < 3 or node.inputs[2] is None or is_constant(node.inputs[2])


def _channel_axis(walk: Walk, node: ir.Node, axes: tuple[Axis, ...]) -> Axis:
    name = node.outputs[0].name
    walk.freeze(axes[2:], f"the window of {node.op_type} {name!r} moves along them")
    return axes[1] if len(axes) >= _LEAST_RANK else ()


def _tied_groups(walk: Walk, read: Axis, groups: int) -> Axis:
    """Channels at the same place of every group go together; one for each place."""
    if not read:
        return ()
    if len(read) > 1:
        walk.freeze((read,), "a grouped convolution reads them in groups")
        return ()
    labels = next(iter(read))
    return (walk.tie_rows(labels.reshape(groups, -1).T),)


def _put(walk: Walk, node: ir.Node, axes: tuple[Axis, ...], made: Axis) -> None:
    rank = len(axes) or len(node.outputs[0].shape or ())
    if rank < _LEAST_RANK:
        walk.freeze((made,), f"the rank of {node.outputs[0].name!r} is not known")
        return
    batch = axes[0] if axes else ()
    walk.put(node.outputs[0], (batch, made, *((),) * (rank - 2)))
