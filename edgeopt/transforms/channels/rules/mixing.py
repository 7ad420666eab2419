"""Operators that mix along some axes, whose channels stay, and pass the others."""

from collections.abc import Collection, Sequence

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.labels import Axis
from edgeopt.transforms.channels.walk import Walk, is_constant, rule

_REDUCE = (
    *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)
_SOFTMAX_BY_AXIS = 13


@rule("Softmax", "LogSoftmax", "Hardmax", "CumSum", "TopK", "LpNormalization")
def along_one(walk: Walk, node: ir.Node) -> str | None:
    """Mixed along one axis; nothing else changes."""
    axes = walk.of(node.inputs[0])
    if not axes:
        return "its rank is not known"
    axis = node.attributes.get_int("axis", -1) or 0
    if node.op_type == "CumSum":
        held = array_of(node.inputs[1])
        if held is None:
            return "its axis is computed"
        axis = int(held)
    version = node.graph.opset_imports.get("", _SOFTMAX_BY_AXIS) if node.graph else 0
    later = node.op_type.endswith("max") and version < _SOFTMAX_BY_AXIS
    axis %= len(axes)
    mixed = range(axis, len(axes)) if later else [axis]
    made = _mixed(walk, node, axes, mixed)
    for value in node.outputs:
        walk.put(value, made)
    return None


@rule("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_norm(walk: Walk, node: ir.Node) -> str | None:
    """Mixed along the last axes."""
    axes = walk.of(node.inputs[0])
    first = (node.attributes.get_int("axis", -1) or 0) % max(len(axes), 1)
    walk.put(node.outputs[0], _mixed(walk, node, axes, range(first, len(axes))))
    return None


@rule("InstanceNormalization")
def instance_norm(walk: Walk, node: ir.Node) -> str | None:
    """Mixed over pixels, one scale and bias a channel."""
    axes = walk.of(node.inputs[0])
    for index in (1, 2):
        if not is_constant(node.inputs[index]) or not walk.cut_if_there(node, index, axes[1]):
            return "its scale is computed"
    walk.put(node.outputs[0], _mixed(walk, node, axes, range(2, len(axes))))
    return None


@rule("GroupNormalization", "LRN", "MeanVarianceNormalization")
def over_channels(walk: Walk, node: ir.Node) -> str | None:
    """Mixed over neighbouring channels, or over all of them."""
    axes = walk.of(node.inputs[0])
    walk.put(node.outputs[0], _mixed(walk, node, axes, range(1, len(axes))))
    return None


@rule("BatchNormalization")
def batch_norm(walk: Walk, node: ir.Node) -> str | None:
    """One scale, bias, mean and variance a channel."""
    axes = walk.of(node.inputs[0])
    if node.attributes.get_int("training_mode", 0) or len(node.outputs) != 1:
        return "it is in training mode"
    if len(axes) < 2:
        return "its rank is not known"
    for index in (1, 2, 3, 4):
        if not is_constant(node.inputs[index]) or not walk.cut(node, index, 0, axes[1]):
            return "its statistics are computed"
    walk.put(node.outputs[0], axes)
    return None


@rule("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def pool(walk: Walk, node: ir.Node) -> str | None:
    """Mixed over pixels; places of the largest elements count over all channels."""
    axes = walk.of(node.inputs[0])
    if len([value for value in node.outputs if value.name and value.uses()]) > 1:
        return "it also says where the largest elements stand"
    walk.put(node.outputs[0], _mixed(walk, node, axes, range(2, len(axes))))
    return None


@rule(*_REDUCE, "ArgMax", "ArgMin")
def reduce(walk: Walk, node: ir.Node) -> str | None:
    """Mixed along the axes that are reduced, which go or become one place."""
    axes = walk.of(node.inputs[0])
    if node.inputs[0] in walk.sizes or not axes:
        return "it computes with their number"
    reduced = _reduced(node, len(axes))
    if reduced is None:
        return "its axes are computed"
    made = _mixed(walk, node, axes, reduced)
    if not node.attributes.get_int("keepdims", 1):
        made = [axis for index, axis in enumerate(made) if index not in reduced]
    walk.put(node.outputs[0], made)
    return None


def _reduced(node: ir.Node, rank: int) -> set[int] | None:
    if node.op_type.startswith("Arg"):
        return {(node.attributes.get_int("axis", 0) or 0) % rank}
    listed: Sequence[int] | None = node.attributes.get_ints("axes")
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        held = array_of(node.inputs[1])
        if held is None:
            return None
        listed = [int(axis) for axis in held.reshape(-1)]
    if not listed:
        empty = node.attributes.get_int("noop_with_empty_axes", 0)
        return set() if empty else set(range(rank))
    return {axis % rank for axis in listed}


def _mixed(walk: Walk, node: ir.Node, axes: Sequence[Axis], mixed: Collection[int]) -> list[Axis]:
    """The axes, those that are mixed without anything that could be removed."""
    name = node.outputs[0].name
    walk.freeze([axes[axis] for axis in mixed], f"{node.op_type} {name!r} mixes them")
    return [() if index in mixed else axis for index, axis in enumerate(axes)]
