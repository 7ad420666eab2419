"""Pools beside integers, where the runtime's own way is slow.

An AveragePool in integers is written as a depthwise convolution of equal weights (onnxruntime
1.32 on 28x28x192: 6 ms for QLinearAveragePool beside 0.1 for the convolution).

A QuantizeLinear behind a pool in float is moved above a MaxPool, which then runs on uint8 in the
layout of floats, 20 times slower, and makes an AveragePool an integer one. A Min in between
that cuts where the codes end stops both and changes no code (a Clip would be taken away).
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.averages import counts_less
from edgeopt.transforms.groups import (
    BOUNDED,
    MOVING,
    hold_groups,
    is_bound,
    name_of,
    through,
)
from edgeopt.transforms.local_rule import integers
from edgeopt.transforms.quantize._scale import Scale

_POOLS = frozenset({"MaxPool", "AveragePool"})
_STEPS = 252
"""Of the largest factor at a border: divisible, so that the usual ones (1, 1.5, 2.25) are exact."""
Codes = npt.NDArray[Any]
_CARRIED = ("kernel_shape", "strides", "pads")


def sinks(value: ir.Value, members: Collection[str]) -> bool:
    """Whether a quantizer of a value would be moved to or above a pool that is to stay float.

    Args:
        value: In float.
        members: Names of all nodes in groups: those may become integer.
    """
    made = value.producer()
    while made is not None and name_of(made.outputs[0]) not in members:
        if made.op_type in _POOLS:
            return True
        if made.op_type not in MOVING or made.inputs[0] is None:
            return False
        made = through(made.inputs[0]).producer()
    return False


def bounded(value: ir.Value) -> ir.Value:
    """The value that a quantizer of a value reads: behind its bound where it has one."""
    cuts = (user.outputs[0] for user, _ in value.uses() if is_bound(user))
    return next(cuts, value)


def write_bound(editor: Editor, value: ir.Value, coded: Scale) -> ir.Node:
    """The Min, which the caller has to insert."""
    steps = int(np.iinfo(coded.zero.dtype).max) - int(coded.zero)
    name = f"{name_of(value)}{BOUNDED}"
    highest = np.asarray(float(coded.scale) * steps, np.float32)
    bound = editor.initializer(f"{name}_highest", highest)
    return new_node("Min", [value, bound], output=name, like=value)


def write_average(editor: Editor, node: ir.Node, coded: Scale, action: Action) -> ir.Node:
    """A depthwise convolution in the place of an AveragePool that reads a dequantized value.

    Where windows count less at the border, a product with what they count less by follows.

    Args:
        editor: Of the graph that holds the node.
        node: `averages_planes` holds of it.
        coded: How its result is coded.
        action: Says the types.

    Returns:
        The node whose result stands for the pool's.
    """
    hold_groups(editor.model)
    made, source = node.outputs[0], node.inputs[0]
    assert source is not None, "the pair was set as its input"
    assert source.shape is not None, "averages_planes asks for it"
    channels, kernel = source.shape[1], integers(node, "kernel_shape")
    assert isinstance(channels, int), "averages_planes asks for it"
    name, dtype = name_of(made), str(action.get("weight"))
    weight = _constant(
        editor, f"{name}__parts", np.ones((channels, 1, *kernel), dtype), 1.0 / math.prod(kernel)
    )
    carried = {key: integers(node, key) for key in _CARRIED if integers(node, key)}
    inputs = [source, weight.outputs[0]]
    attributes = {**carried, "group": channels}
    conv = new_node("Conv", inputs, output=f"{name}__average", attributes=attributes, like=made)
    steps = [weight, conv]
    if counts_less(node):
        steps += _corrected(editor, node, conv, coded)
    editor.insert(steps, before=node)
    editor.replace_value(made, steps[-1].outputs[0])
    editor.remove(node)
    return steps[-1]


def _constant(editor: Editor, name: str, codes: Codes, step: float) -> ir.Node:
    """The DequantizeLinear of codes with zero point 0, to be inserted."""
    held = editor.initializer(f"{name}_codes", codes)
    scale = editor.initializer(f"{name}_scale", np.asarray(step, np.float32))
    zero = editor.initializer(f"{name}_zero", np.asarray(0, codes.dtype))
    made = new_node("DequantizeLinear", [held, scale, zero], output=name)
    made.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    return made


def _corrected(
    editor: Editor, node: ir.Node, conv: ir.Node, coded: Scale
) -> tuple[ir.Node, ir.Node, ir.Node, ir.Node]:
    """The pair of the convolution's result, the factors [1, 1, H, W], and their product."""
    made, name = node.outputs[0], name_of(node.outputs[0])
    scale = editor.initializer(f"{name}__average_scale", coded.scale)
    zero = editor.initializer(f"{name}__average_zero", coded.zero)
    average = conv.outputs[0]
    quantize = new_node("QuantizeLinear", [average, scale, zero], output=f"{name}__average_codes")
    quantize.outputs[0].type = ir.TensorType(ir.DataType[coded.zero.dtype.name.upper()])
    quantize.outputs[0].shape = made.shape
    pair = [quantize.outputs[0], scale, zero]
    dequantize = new_node("DequantizeLinear", pair, output=f"{name}__average_read", like=made)
    factors = _factors(node)
    most = _STEPS // (1 if coded.zero.dtype == np.uint8 else 2)
    step = float(factors.max()) / most
    codes = np.rint(factors / step).astype(coded.zero.dtype)[None, None]
    factor = _constant(editor, f"{name}__factors", codes, step)
    inputs = [dequantize.outputs[0], factor.outputs[0]]
    product = new_node("Mul", inputs, output=f"{name}__corrected", like=made)
    return quantize, dequantize, factor, product


def _factors(node: ir.Node) -> npt.NDArray[np.float64]:
    """[H, W]: elements of a window, over those of them that are inside."""
    source, made = node.inputs[0], node.outputs[0]
    assert source is not None, "averages_planes asks for it"
    assert source.shape is not None, "averages_planes asks for it"
    assert made.shape is not None, "averages_planes asks for it"
    kernel = integers(node, "kernel_shape")
    pads, strides = integers(node, "pads"), integers(node, "strides") or (1, 1)
    counts: list[npt.NDArray[np.int64]] = []
    for axis in (0, 1):
        size, wanted = source.shape[axis + 2], made.shape[axis + 2]
        assert isinstance(size, int), "averages_planes asks for it"
        assert isinstance(wanted, int), "averages_planes asks for it"
        first = np.arange(wanted) * strides[axis] - pads[axis]
        counts.append(np.minimum(first + kernel[axis], size) - np.maximum(first, 0))
    return math.prod(kernel) / np.outer(counts[0], counts[1])
