"""Element by element: channels pass, and operands lose the same places."""

from collections.abc import Iterator

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.labels import Axis
from edgeopt.transforms.channels.walk import (
    CONTRIB,
    Walk,
    constant_shape,
    is_constant,
    rule,
    size_of,
)

_ONE = (
    *("Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Selu", "Celu"),
    *("Gelu", "Erf", "Softplus", "Softsign", "Mish", "Swish", "ThresholdedRelu", "Shrink"),
    *("Identity", "Cast", "Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Sign", "Not"),
    *("Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Atan", "IsNaN", "IsInf"),
)
_SEVERAL = (
    *("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow", "Sum", "Mean", "Mod", "Where", "PRelu"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"),
)
_ADDS = frozenset({"Add", "Sub", "Sum", "Mean"})


@rule(*_ONE)
def one(walk: Walk, node: ir.Node) -> str | None:
    """One operand; sizes pass as well."""
    source = node.inputs[0]
    assert source is not None, "these have an operand"
    if source in walk.sizes:
        if node.op_type not in ("Identity", "Cast"):
            return "it computes with their number"
        walk.sizes[node.outputs[0]] = walk.sizes[source]
        return None
    walk.put(node.outputs[0], walk.of(source))
    return None


@rule("QuickGelu", "BiasGelu", domain=CONTRIB)
def contrib(walk: Walk, node: ir.Node) -> str | None:
    """The runtime's own activations; the bias of one is a constant a channel."""
    axes = walk.of(node.inputs[0])
    if axes and not walk.cut_if_there(node, 1, axes[-1]):
        return "its bias is computed"
    walk.put(node.outputs[0], axes)
    return None


@rule("Clip")
def clip(walk: Walk, node: ir.Node) -> str | None:
    """Bounds are single numbers."""
    walk.put(node.outputs[0], walk.of(node.inputs[0]))
    return None


@rule("Dropout")
def dropout(walk: Walk, node: ir.Node) -> str | None:
    """In inference nothing is dropped."""
    for value in node.outputs:
        walk.put(value, walk.of(node.inputs[0]))
    return None


@rule("QuantizeLinear", "DequantizeLinear")
def quantized(walk: Walk, node: ir.Node) -> str | None:
    """Codes of activations: a scale for all, or one for every place of an axis."""
    axes = walk.of(node.inputs[0])
    if not axes or node.attributes.get_int("block_size", 0):
        return "its scales are for blocks"
    along = (node.attributes.get_int("axis", 1) or 0) % len(axes)
    for index in range(1, len(node.inputs)):
        if node.inputs[index] is not None and not is_constant(node.inputs[index]):
            return "its scale is computed"
        walk.cut_if_there(node, index, axes[along])
    walk.put(node.outputs[0], axes)
    return None


@rule(*_SEVERAL)
def several(walk: Walk, node: ir.Node) -> str | None:
    """Operands are broadcast; those of equal size lose the same places."""
    made = node.outputs[0]
    if any(value in walk.sizes for value in node.inputs if value is not None):
        return "it computes with their number"
    if made.shape is None or any(
        value is not None and value.shape is None and array_of(value) is None
        for value in node.inputs
    ):
        return "its rank is not known"
    rank = len(made.shape)
    walk.put(made, [_aligned(walk, node, axis, rank) for axis in range(rank)])
    return None


def _aligned(walk: Walk, node: ir.Node, axis: int, rank: int) -> Axis:
    """What stands on one axis of a broadcast."""
    reason = f"they meet {node.op_type} {node.outputs[0].name!r}, whose other operand stays"
    listed = list(_operands(walk, node, axis, rank))
    held = [labels for _, _, labels, _ in listed if labels]
    if not held:
        return ()
    width = max(len(labels[0]) for labels in held)
    walk.freeze([labels for labels in held if len(labels[0]) != width], reason)
    held = [labels for labels in held if len(labels[0]) == width]
    others = [(index, at, size) for index, at, labels, size in listed if not labels and size != 1]
    if any(
        size != width or not is_constant(node.inputs[i]) or not walk.cut(node, i, at, held[0])
        for i, at, size in others
    ):
        walk.freeze(held, reason)
        return ()
    made, added = held[0], node.op_type in _ADDS
    for labels in held[1:]:
        made = walk.tie(made, labels, reason, added=added)
    return made


def _operands(
    walk: Walk, node: ir.Node, axis: int, rank: int
) -> Iterator[tuple[int, int, Axis, int | None]]:
    """Operand, axis of it, what stands there, and its size, where it has the axis."""
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        shape = constant_shape(value)
        own = len(shape) if shape is not None else len(value.shape or ())
        at = axis - (rank - own)
        if at >= 0:
            axes = walk.of(value)
            size = shape[at] if shape is not None else size_of(value, at)
            yield index, at, axes[at] if axes else (), size
