"""Static quantization of one group as TensorRT wants it: symmetric, and float everywhere else.

Before each Conv, Gemm or MatMul of the group stand QuantizeLinear and DequantizeLinear with int8
and zero point 0, its weight is int8 behind a DequantizeLinear with one scale a channel, its bias
stays float32 (an int32 bias behind a DequantizeLinear is refused), and nothing stands behind it:
the engine moves the conversions itself, and a pair on a result would force it to leave the layer
in integers (docs.nvidia.com, "Explicit Quantization"; optimum-onnx's preset for TensorRT). The CPU
provider computes such a convolution in float: speed there says nothing. Not run on TensorRT: where
a Quantize follows, onnxruntime 1.32 gives a float bias int32 codes by itself at level `basic`
(WeightBiasQuantization), and whether TensorRT gets to see them is not known. So that these codes
fit, a channel with almost no weights under a large bias gets a wider scale.

Must not fire below opset 13, on weights that are no float32 constants, or on a model that came with
quantizers of its own (`transcode_int8` is for those).
"""

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Evidence, Offer, Range, Rejection
from edgeopt.transforms.groups import (
    activations,
    float_groups,
    hold_groups,
    holds_groups,
    is_bias,
    is_constant,
    is_quantized,
    is_weighted,
    name_of,
)
from edgeopt.transforms.local_rule import opset_of, refuse
from edgeopt.transforms.quantize._codes import Array, Kind, coded_weight, float_weight
from edgeopt.transforms.quantize._plan import holds_quantizers, method_held
from edgeopt.transforms.quantize._scale import scale_of
from edgeopt.transforms.quantize._weights import channel_axis, least_scales

NAME = "symmetric_qdq"
OPSET_NEEDED = 13


class SymmetricQdq:
    """int8 by int8 with zero points 0, on the inputs of weighted layers only."""

    version = 1
    needs_data = True
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a group that is still float, where the device wants zero points of 0."""
        types = offer.profile.quantization
        if types is None or not types.symmetric or not offer.data or _refused(model) is not None:
            return ()
        left = {name_of(node.outputs[0]) for node in model.graph if _why_not(node) is None}
        return tuple(
            Action.of(NAME, group.name, per_channel=types.per_channel)
            for group in float_groups(model)
            if not left.isdisjoint(group.nodes)
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Insert the pairs and the integer weights of one group."""
        refused = _refused(editor.model)
        if refused is not None:
            return refused
        group = next((one for one in float_groups(editor.model) if one.name == action.site), None)
        if group is None:
            return Rejection(reason="no weighted node makes this value")
        members = frozenset(group.nodes)
        nodes = [n for n in editor.graph if name_of(n.outputs[0]) in members and is_weighted(n)]
        found = [node for node in nodes if _why_not(node) is None]
        if not found:
            return next(why for node in nodes if (why := _why_not(node)) is not None)
        ranges, digest = _ranges(editor.model, action, evidence)
        hold_groups(editor.model)
        for node in found:
            why = _quantize(editor, node, ranges, bool(action.get("per_channel")))
            if why is not None:
                return why
        return action.with_artifacts(ranges=digest)


PLUGIN = SymmetricQdq()


def _refused(model: ir.Model) -> Rejection | None:
    if opset_of(model) < OPSET_NEEDED:
        return Rejection(reason=f"a scale a channel needs opset {OPSET_NEEDED}")
    if holds_quantizers(model.graph) and not holds_groups(model.graph):
        return Rejection(reason="the model came with quantizers of its own")
    return None


def _why_not(node: ir.Node) -> Rejection | None:
    if not is_weighted(node):
        return refuse("it is no weighted node", node)
    if is_quantized(node):
        return refuse("it is quantized already", node)
    weight = float_weight(node.inputs[1])
    if weight is None:
        return refuse("its weight is not a plain float32 constant", node)
    if node.op_type != "Conv" and weight.ndim != 2:
        return refuse("its weight is not a matrix", node)
    return None


def _ranges(model: ir.Model, action: Action, evidence: Evidence) -> tuple[dict[str, Range], str]:
    """Of all values that a pair may stand on: of the float graph, so that order is irrelevant."""
    source = evidence.reference if holds_groups(model.graph) else model
    source = model if source is None else source
    names = {name_of(v) for n in source.graph if is_weighted(n) for _, v in activations(n)}
    method = method_held(model.graph) or "minmax"
    found, digest = evidence.ranges(source, sorted(names), action.artifact("ranges"), method=method)
    return dict(found), digest


def _quantize(
    editor: Editor, node: ir.Node, ranges: dict[str, Range], per_channel: bool
) -> Rejection | None:
    weight, (index, value) = node.inputs[1], next(activations(node))
    assert weight is not None, "it is weighted"
    if name_of(value) not in ranges:
        return refuse(f"calibration has no range of {name_of(value)!r}", node)
    kind = Kind(dtype="int8", per_channel=per_channel, reduce_range=False)
    axis = channel_axis(node)
    coded = coded_weight(weight, kind, (axis,))
    if coded is None:
        return refuse("its weight is not finite", node)
    # Layers that share a weight and its axis share its codes, unless a bias makes them their own.
    role = f"{weight.name}__{kind.tag}_symmetric_{axis}"
    least = _least_scales(node, ranges[name_of(value)], weight, axis)
    if least is not None and np.any(coded.scale < least):
        coded = coded_weight(weight, kind, (axis,), least)
        assert coded is not None, "it was finite"
        role = f"{name_of(node.outputs[0])}__{kind.tag}_symmetric"
    editor.set_input(node, index, _pair(editor, value, ranges[name_of(value)]))
    inputs = [
        editor.initializer(role, coded.codes),
        editor.initializer(f"{role}_scale", np.asarray(coded.scale, np.float32)),
        editor.initializer(f"{role}_zero", coded.zero),
    ]
    made = new_node(
        "DequantizeLinear",
        inputs,
        output=f"{name_of(node.outputs[0])}__weight",
        attributes={"axis": axis} if coded.scale.ndim else {},
        like=weight,
    )
    editor.insert([made], before=node)
    editor.set_input(node, 1, made.outputs[0])
    if not weight.uses() and weight.is_initializer() and not weight.is_graph_output():
        editor.drop_initializer(weight)
    return None


def _least_scales(node: ir.Node, found: Range, weight: ir.Value, axis: int) -> Array | None:
    """The smallest scale a channel that the bias of a layer allows; None without a bias."""
    held = node.inputs[2] if len(node.inputs) > 2 else None
    for user, _ in node.outputs[0].uses():
        if held is None and is_bias(user):
            held = next(value for value in user.inputs if is_constant(value))
    bias = array_of(held)
    if bias is None or weight.shape is None:
        return None
    sizes = np.abs(bias)
    sizes = sizes.reshape(-1, sizes.shape[-1]).max(axis=0) if sizes.ndim else sizes
    width = weight.shape.numpy()[axis]
    return least_scales(np.broadcast_to(sizes, (width,)), scale_of(found, "int8"))


def _pair(editor: Editor, value: ir.Value, found: Range) -> ir.Value:
    """The dequantized form of a value; all its weighted users share it."""
    name = name_of(value)
    for user, _ in value.uses():
        if user.op_type == "QuantizeLinear":
            return next(
                made.outputs[0]
                for made, _ in user.outputs[0].uses()
                if made.op_type == "DequantizeLinear"
            )
    coded = scale_of(found, "int8")
    scale = editor.initializer(f"{name}__scale", coded.scale)
    zero = editor.initializer(f"{name}__zero", coded.zero)
    quantize = new_node("QuantizeLinear", [value, scale, zero], output=f"{name}__quantized")
    quantize.outputs[0].type = ir.TensorType(ir.DataType.INT8)
    quantize.outputs[0].shape = value.shape
    inputs = [quantize.outputs[0], scale, zero]
    dequantize = new_node("DequantizeLinear", inputs, output=f"{name}__dequantized", like=value)
    producer = value.producer()
    if producer is not None:
        editor.insert_after([quantize, dequantize], after=producer)
    else:
        editor.insert([quantize, dequantize], before=next(iter(editor.graph)))
    return dequantize.outputs[0]
