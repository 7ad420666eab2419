"""What is known about the sign of a value from the nodes that make it."""

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.local_rule import input_of

_ALWAYS = frozenset({"Relu", "Sqrt", "Exp", "Abs", "Sigmoid", "HardSigmoid", "Softmax", "Softplus"})
_KEEPING = frozenset(
    {
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Identity",
        "Reshape",
        "Flatten",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Gather",
        "Expand",
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "Dropout",
    }
)
_TOGETHER = frozenset({"Add", "Mul", "Div", "Max", "Concat"})
_DEPTH = 6


def is_nonnegative(value: ir.Value | None, depth: int = _DEPTH) -> bool:
    """Whether no element of a value is below 0 (NaN aside)."""
    array = array_of(value)
    if array is not None:
        return array.dtype.kind in "fiu" and bool((np.asarray(array) >= 0).all())
    node = None if value is None else value.producer()
    if node is None or node.domain or not depth:
        return False
    if node.op_type in _ALWAYS:
        return True
    if node.op_type in _KEEPING:
        return is_nonnegative(node.inputs[0], depth - 1)
    if node.op_type == "Mul" and node.inputs[0] is node.inputs[1]:
        return True
    if node.op_type == "Pow":
        power = array_of(node.inputs[1])
        return power is not None and bool((power == 2).all())
    if node.op_type == "Clip":
        low = array_of(input_of(node, 1))
        return low is not None and bool((low >= 0).all())
    return node.op_type in _TOGETHER and all(is_nonnegative(v, depth - 1) for v in node.inputs)


def is_above_zero(value: ir.Value | None) -> bool:
    """Whether every element is above 0 (NaN aside): something positive was added, or cut off."""
    node = None if value is None else value.producer()
    if node is None or node.domain:
        return False
    if node.op_type == "Clip":
        return _is_positive(input_of(node, 1))
    if node.op_type != "Add":
        return False
    pairs = ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0]))
    return any(_is_positive(one) and is_nonnegative(other) for one, other in pairs)


def _is_positive(value: ir.Value | None) -> bool:
    array = array_of(value)
    return array is not None and array.dtype.kind == "f" and bool((array > 0).all())
