"""Constant operands of a weighted node as integers behind a DequantizeLinear.

weight = scale[c] * code, symmetric; bias = activation scale * weight scale[c] * int32 code, so
that the integer kernel adds it to its accumulator without a conversion.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.quantize._kept import remembered
from edgeopt.transforms.quantize._scale import Scale

Array = npt.NDArray[Any]
_BIAS_LIMIT = 2.0**30
"""Half of int32: room for the products that are added to the bias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """An integer weight: codes, one scale a channel (or a scalar), and the channel axis."""

    codes: Array
    scale: Array
    zero: Array
    axis: int


def channel_axis(node: ir.Node) -> int:
    """The axis of the weight that runs over output channels."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "Gemm" and node.attributes.get_int("transB", 0):
        return 0
    weight = node.inputs[1]
    shape = None if weight is None else weight.shape
    return 1 if shape is None else len(shape) - 1


def least_scales(bias: Array, source: Scale) -> Array:
    """The smallest scale of each weight channel with which int32 codes of its bias fit.

    Args:
        bias: Float32, one a channel.
        source: How the activation is coded.
    """
    return np.asarray(np.abs(bias) / np.float32(_BIAS_LIMIT * float(source.scale)), np.float32)


def quantize_constants(
    editor: Editor, node: ir.Node, source: Scale, action: Action
) -> Rejection | None:
    """Put the weight and the bias of a node behind DequantizeLinear.

    Args:
        editor: Of the graph that holds the node.
        node: Conv, Gemm or MatMul with a constant weight.
        source: How its activation is coded; the bias depends on it.
        action: Says the types.
    """
    refused, bias = _fits(node)
    if refused is not None:
        return refused
    made = node.outputs[0].name or ""
    coded = _coded(node, action)
    if not np.all(np.isfinite(coded.scale)):
        return Rejection(reason="its weight is not finite", nodes=(node.name or "",))
    least = least_scales(bias, source).max(initial=0.0)
    if np.any(coded.scale < least):
        coded = _widened(node, action, bias, source)
    _dequantize(editor, node, 1, coded, f"{made}__weight")
    if bias.size:
        _quantize_bias(editor, node, 2, bias, (source.scale * coded.scale).astype(np.float32))
    return None


def quantize_added_bias(
    editor: Editor, add: ir.Node, product: ir.Node, source: Scale
) -> Rejection | None:
    """Put the constant of an Add behind a MatMul, whose weight is integer already, into int32."""
    index = next(i for i, value in enumerate(add.inputs) if array_of(value) is not None)
    bias, weight = array_of(add.inputs[index]), product.inputs[1]
    made = None if weight is None else weight.producer()
    scale = None if made is None else array_of(made.inputs[1])
    if bias is None or scale is None or bias.dtype != np.float32:
        return Rejection(reason="its bias is not a float32 constant", nodes=(add.name or "",))
    scale = (source.scale * scale).astype(np.float32)
    if np.any(np.abs(bias) / scale > _BIAS_LIMIT):
        return Rejection(reason="its bias does not fit into int32", nodes=(add.name or "",))
    _quantize_bias(editor, add, index, bias, scale)
    return None


def _quantize_bias(editor: Editor, node: ir.Node, index: int, bias: Array, scale: Array) -> None:
    def codes() -> Codes:
        codes = np.rint(bias.astype(np.float64) / scale.astype(np.float64)).astype(np.int32)
        return Codes(codes=codes, scale=scale, zero=np.zeros(scale.shape, np.int32), axis=0)

    value = node.inputs[index]
    tensor = None if value is None else value.const_value
    coded = remembered(tensor, ("bias", scale.tobytes()), codes)
    _dequantize(editor, node, index, coded, f"{node.outputs[0].name}__bias")


def _fits(node: ir.Node) -> tuple[Rejection | None, Array]:
    """Why the constants of a node cannot be integers, and its bias flattened, empty if none."""
    nothing = np.zeros(0, np.float32)
    name = (node.name or "",)
    value = node.inputs[1]
    weight = None if value is None else ir.convenience.get_const_tensor(value)
    if weight is None:
        return Rejection(reason="its weight is not a plain constant", nodes=name), nothing
    if weight.dtype is not ir.DataType.FLOAT:
        return Rejection(reason=f"its weight is {weight.dtype}, not float32", nodes=name), nothing
    shape = weight.shape.numpy()
    factors = {node.attributes.get_float(key, 1.0) for key in ("alpha", "beta")}
    if node.op_type == "Gemm" and (
        factors != {1.0} or node.attributes.get_int("transA", 0) or len(shape) != 2
    ):
        reason = "integer Gemm has neither factors nor a transposed activation"
        return Rejection(reason=reason, nodes=name), nothing
    if node.op_type == "MatMul" and len(shape) != 2:
        return Rejection(reason="its weight is not a matrix", nodes=name), nothing
    given = node.inputs[2] if len(node.inputs) > 2 else None
    if given is None:
        return None, nothing
    bias = array_of(given)
    if bias is None:
        return Rejection(reason="its bias is not a plain constant", nodes=name), nothing
    if bias.size != shape[channel_axis(node)]:
        return Rejection(reason="its bias is not one value a channel", nodes=name), nothing
    return None, bias.reshape(-1)


def _coded(node: ir.Node, action: Action) -> Codes:
    value = node.inputs[1]
    tensor = None if value is None else value.const_value
    kind = (str(action.get("weight")), action.get("per_channel"), action.get("reduce_range"))
    key = ("weight", channel_axis(node), *kind)
    return remembered(tensor, key, lambda: _codes(node, action, None))


def _codes(node: ir.Node, action: Action, least: Array | None) -> Codes:
    """The weight as codes; `least` is the smallest scale a channel that the bias allows."""
    weight, axis = array_of(node.inputs[1]), channel_axis(node)
    assert weight is not None
    limit = 63 if action.get("reduce_range") else 127
    others = tuple(index for index in range(weight.ndim) if index != axis)
    per_channel = bool(action.get("per_channel"))
    highest = np.abs(weight).max(axis=others if per_channel else None, initial=0.0)
    scale = np.asarray(highest / np.float32(limit), np.float32)
    if least is not None:
        scale = np.maximum(scale, least if per_channel else least.max()).astype(np.float32)
    scale = np.where(scale < np.finfo(np.float32).tiny, np.float32(1.0), scale)
    shape = [-1 if index == axis else 1 for index in range(weight.ndim)]
    spread = scale.reshape(shape) if per_channel else scale
    codes = np.clip(np.rint(weight / spread), -limit, limit)
    dtype = str(action.get("weight"))
    middle = 128 if dtype == "uint8" else 0
    zero = np.full(scale.shape, middle, dtype)
    return Codes(codes=(codes + middle).astype(dtype), scale=scale, zero=zero, axis=axis)


def _widened(node: ir.Node, action: Action, bias: Array, source: Scale) -> Codes:
    """Coarser codes for channels whose bias would not fit into int32 (near-dead channels)."""
    return _codes(node, action, least_scales(bias, source))


def _dequantize(editor: Editor, node: ir.Node, index: int, coded: Codes, role: str) -> None:
    # Zero points say nothing but their type and length, so that one constant serves all.
    zero = f"zero_{coded.zero.dtype}_{'x'.join(map(str, coded.zero.shape)) or 'scalar'}"
    values = [
        editor.initializer(f"{role}_quantized", coded.codes),
        editor.initializer(f"{role}_scale", coded.scale),
        editor.graph.initializers.get(zero) or editor.initializer(zero, coded.zero),
    ]
    old = node.inputs[index]
    assert old is not None, "the caller found a constant there"
    axis = {"axis": coded.axis} if coded.scale.ndim else {}
    made = new_node("DequantizeLinear", values, output=f"{role}_dequantized", attributes=axis)
    made.outputs[0].type, made.outputs[0].shape = old.type, ir.Shape(coded.codes.shape)
    editor.insert([made], before=node)
    editor.set_input(node, index, made.outputs[0])
    if old.is_initializer() and not old.uses():
        editor.drop_initializer(old)
