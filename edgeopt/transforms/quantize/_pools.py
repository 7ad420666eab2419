"""Pools beside integers, where the runtime's own way is slow.

An AveragePool in integers is written as a depthwise convolution of equal weights (onnxruntime
1.32 on 28x28x192: 6 ms for QLinearAveragePool beside 0.1 for the convolution).

A QuantizeLinear behind a pool in float is moved above a MaxPool, which then runs on uint8 in the
layout of floats, 20 times slower, and makes an AveragePool an integer one. A Min in between
that cuts where the codes end stops both and changes no code (a Clip would be taken away).
"""

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.groups import BOUNDED, MOVING, hold_groups, is_bound, name_of, through
from edgeopt.transforms.local_rule import integers
from edgeopt.transforms.quantize._scale import Scale

_POOLS = frozenset({"MaxPool", "AveragePool"})
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


def write_average(editor: Editor, node: ir.Node, action: Action) -> ir.Node:
    """A depthwise convolution in the place of an AveragePool that reads a dequantized value."""
    hold_groups(editor.model)
    made, source = node.outputs[0], node.inputs[0]
    assert source is not None, "the pair was set as its input"
    assert source.shape is not None, "averages_planes asks for it"
    channels, kernel = source.shape[1], integers(node, "kernel_shape")
    assert isinstance(channels, int), "averages_planes asks for it"
    name, dtype = name_of(made), str(action.get("weight"))
    ones = editor.initializer(f"{name}__ones", np.ones((channels, 1, *kernel), dtype))
    part = np.asarray(1.0 / np.prod(kernel), np.float32)
    scale = editor.initializer(f"{name}__part", part)
    zero = editor.initializer(f"{name}__nothing", np.asarray(0, dtype))
    weight = new_node("DequantizeLinear", [ones, scale, zero], output=f"{name}__parts")
    weight.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    carried = {key: integers(node, key) for key in _CARRIED if integers(node, key)}
    inputs = [source, weight.outputs[0]]
    attributes = {**carried, "group": channels}
    conv = new_node("Conv", inputs, output=f"{name}__average", attributes=attributes, like=made)
    editor.insert([weight, conv], before=node)
    editor.replace_value(made, conv.outputs[0])
    editor.remove(node)
    return conv
