"""What the runtime computes as a part of another node, so that it costs nothing of its own.

The reading is that of ONNX Runtime's CPU provider: constants added to or multiplied with what a
float convolution makes go into its weights, a residual Add and one activation into its kernel.
"""

import math

import onnx_ir as ir

from edgeopt.transforms.groups import is_constant, is_quantized

ACTIVATIONS = frozenset(
    {"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish"}
)
_SCALING = frozenset({"Add", "Mul", "Sub", "Div", "BatchNormalization"})
_IMAGE_RANK = 4
"""Residual Adds are fused in the blocked layout only, which two-dimensional convolutions have."""


def host_of(node: ir.Node) -> ir.Node | None:
    """The Conv, Gemm or MatMul that computes this node too; None where it is one of its own."""
    if node.op_type in ACTIVATIONS:
        before = _only_made_for(node.inputs[0])
        if before is not None and before.op_type in {"Conv", "Gemm"}:
            return before
        return None if before is None else _linear_host(before)
    return _linear_host(node)


def _linear_host(node: ir.Node) -> ir.Node | None:
    """The host of what is no activation: nothing follows an activation into a kernel."""
    source = _scaled(node)
    if source is not None:
        return _weighted_host(source, node)
    sides = _summed(node)
    hosts = (_weighted_host(side, node) for side in sides)
    return next((host for host in hosts if host is not None and host.op_type == "Conv"), None)


def _weighted_host(source: ir.Value, node: ir.Node) -> ir.Node | None:
    before = _only_made_for(source)
    if before is None:
        return None
    if before.op_type == "Conv":
        return None if is_quantized(before) else before
    if before.op_type == "MatMul" and node.op_type == "Add":
        return before
    if _scaled(before) is None:
        return None
    host = _linear_host(before)
    return host if host is not None and host.op_type == "Conv" else None


def _scaled(node: ir.Node) -> ir.Value | None:
    """What a node changes by constants that are one a channel; None for any other node."""
    if node.op_type not in _SCALING or len(node.inputs) < 2:
        return None
    if node.op_type == "BatchNormalization":
        return node.inputs[0] if all(map(is_constant, node.inputs[1:])) else None
    constants = [value for value in node.inputs if is_constant(value)]
    sources = [value for value in node.inputs if not is_constant(value)]
    if len(constants) != 1 or len(sources) != 1:
        return None
    shape = None if constants[0] is None else constants[0].shape
    if shape is None or not shape.is_static():
        return None
    sizes = shape.numpy()
    return sources[0] if math.prod(sizes) == max(sizes, default=1) else None


def _summed(node: ir.Node) -> list[ir.Value]:
    """Both sides of a residual Add of images; nothing for any other node."""
    sides = [value for value in node.inputs if value is not None and not is_constant(value)]
    if node.op_type != "Add" or len(sides) != 2:
        return []
    first, second = (side.shape for side in sides)
    if first is None or second is None or len(first) != _IMAGE_RANK or first != second:
        return []
    return sides


def _only_made_for(value: ir.Value | None) -> ir.Node | None:
    """What makes a value that has one reader and is no output."""
    if value is None or value.is_graph_output() or len(value.uses()) != 1:
        return None
    return value.producer()
