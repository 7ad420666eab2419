"""Static quantization of one group in QDQ form.

Every activation that an integer node of the group reads or makes gets one QuantizeLinear and
DequantizeLinear, weights and bias become integers; the runtime fuses Dequantize-node-Quantize
into integer kernels. A value has at most one pair, whoever asks first, with a scale that the
float graph alone decides, so the order in which groups are quantized does not matter.

Behind a Gemm or MatMul without activation the result stays float (requantising costs as much as
the product) unless its user is quantized. Must not fire without calibration, below opset 13 (no
per-channel form), or on weights that are not float32 constants.
"""

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.averages import averages_planes
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.groups import (
    ARITHMETIC,
    JOINING,
    MOVING,
    SIGMOID,
    Group,
    activations,
    float_groups,
    float_users,
    hold_groups,
    holds_groups,
    is_bias,
    is_output,
    is_quantized,
    is_weighted,
    name_of,
    replaced,
    through,
)
from edgeopt.transforms.quantize._borders import keep_borders, take_borders
from edgeopt.transforms.quantize._gelu import SIGMOID_GELU, gelu_behind, write_gelu
from edgeopt.transforms.quantize._gemm import has_gemm_form, write_gemm
from edgeopt.transforms.quantize._once import read_once
from edgeopt.transforms.quantize._plan import Plan, held_plan, holds_quantizers, plan_of
from edgeopt.transforms.quantize._pools import bounded, sinks, write_average, write_bound
from edgeopt.transforms.quantize._weights import quantize_added_bias, quantize_constants

OPSET_NEEDED = 13
_GEMM_OPSET = 15
"""Shape with an end, which a Gemm of a value with several free sizes needs."""


class StaticQdq:
    """Integer arithmetic for a group, from calibrated ranges."""

    version = 2
    needs_data = True
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a group that is still float, in the types that the device computes fast."""
        types = offer.profile.quantization
        if types is None or types.symmetric or not offer.data or _refused(model) is not None:
            # Where zero points must be 0, `symmetric_qdq` puts pairs in other places.
            return ()
        quantized = {
            name_of(node.outputs[0])
            for node in model.graph
            if is_weighted(node) and is_quantized(node)
        } | replaced(model)
        products, curved = _with_gemm_form(model), _before_gelu(model)
        return tuple(
            Action.of(
                "static_qdq",
                group.name,
                version=self.version,
                activation=types.activation,
                weight=types.weight,
                per_channel=types.per_channel,
                reduce_range=types.reduce_range,
                **form,
            )
            for group in float_groups(model)
            if quantized.isdisjoint(group.nodes)
            for form in _forms(group, products, curved)
        )

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Insert the pairs and integer constants of one group."""
        refused = _refused(editor.model)
        if refused is not None:
            return refused
        plan = plan_of(editor.model, action, evidence)
        if isinstance(plan, Rejection):
            return plan
        group = plan.groups.get(action.site)
        if group is None:
            return Rejection(reason="no weighted node makes this value")
        if not replaced(editor.model).isdisjoint(group.nodes):
            return Rejection(reason="its products are integer already")
        take_borders(editor, plan, group.nodes)
        for name in group.nodes:
            refused = _quantize_node(editor, plan.nodes[name], plan, action)
            if refused is not None:
                return refused
        if action.get(SIGMOID_GELU, False) and not _has_integer_gelu(plan, group):
            return Rejection(reason="no GELU behind it can be computed in integers")
        keep_borders(editor, plan, group.nodes, str(action.get("activation")))
        return action.with_artifacts(ranges=plan.digest)


PLUGIN = StaticQdq()


def _with_gemm_form(model: ir.Model) -> dict[str, str]:
    """Operators by name of their value, where a Gemm form is to be had."""
    if model.graph.opset_imports.get("", 0) < _GEMM_OPSET:
        return {}
    return {name_of(node.outputs[0]): node.op_type for node in model.graph if has_gemm_form(node)}


def _before_gelu(model: ir.Model) -> frozenset[str]:
    """Names of values that only a GELU reads, where they would be codes."""
    return frozenset(
        name_of(node.outputs[0])
        for node in model.graph
        if node.op_type == "Conv" and is_weighted(node) and gelu_behind(model, node.outputs[0])
    )


def _forms(
    group: Group, products: Mapping[str, str], curved: Collection[str]
) -> tuple[dict[str, bool], ...]:
    """A GELU in integers first. With a MatMul its Gemm comes first; a convolution as Gemm pays on
    some processors only.
    """
    gelu = ({SIGMOID_GELU: True},) if any(name in curved for name in group.nodes) else ()
    found = {products[name] for name in group.nodes if name in products}
    if not found:
        return (*gelu, {})
    gemm = {"gemm": True}
    return (*gelu, gemm, {}) if "MatMul" in found else (*gelu, {}, gemm)


def _refused(model: ir.Model) -> Rejection | None:
    opset = model.graph.opset_imports.get("", 0)
    if opset < OPSET_NEEDED:
        reason = f"opset {opset} has no per-channel DequantizeLinear, {OPSET_NEEDED} has"
        return Rejection(reason=reason)
    ours = held_plan(model.graph) is not None or holds_groups(model.graph)
    if holds_quantizers(model.graph) and not ours:
        return Rejection(reason="the model came with quantizers of its own")
    return None


def _quantize_node(editor: Editor, node: ir.Node, plan: Plan, action: Action) -> Rejection | None:
    name, dtype = name_of(node.outputs[0]), str(action.get("activation"))
    if node.op_type in JOINING and name not in plan.joined:
        return None
    if is_weighted(node) and is_quantized(node):
        return Rejection(reason="it is quantized already", nodes=(node.name or "",))
    if node.graph is None:
        # A bias that its Gemm has taken in.
        return None
    if action.get("gemm", False) and has_gemm_form(node):
        return _quantize_as_gemm(editor, node, plan, action)
    if is_bias(node):
        return _quantize_bias_of(editor, node, plan, dtype)
    if node.op_type == "HardSwish" and not _is_gated(node, plan, dtype):
        return None
    if name not in plan.fused:
        for index, value in list(activations(node)):
            pair = _pair(editor, value, plan, dtype)
            if isinstance(pair, Rejection):
                return pair
            editor.set_input(node, index, pair)
    if is_weighted(node):
        source = plan.scale(name_of(next(activations(node))[1]), dtype)
        assert source is not None, "the pair of the activation was made from it"
        refused = quantize_constants(editor, node, source, action)
        if refused is not None:
            return refused
    if node.op_type == "HardSwish":
        node = _integer_gate(editor, node, plan)
    if averages_planes(node):
        coded = plan.scale(name, dtype)
        if coded is None:
            return Rejection(reason=f"calibration has no range of {name!r}")
        node = write_average(editor, node, coded, action)
    for made in tuple(node.outputs) if _makes_codes(node, plan) else ():
        pair = _pair(editor, made, plan, dtype)
        if isinstance(pair, Rejection):
            return pair
        _redirect(editor, made, pair)
        if action.get(SIGMOID_GELU, False):
            refused = _integer_gelu(editor, pair, plan, action)
            if refused is not None:
                return refused
        read_once(editor, made, pair, plan.members)
    return None


def _has_integer_gelu(plan: Plan, group: Group) -> bool:
    values = (value for name in group.nodes for value in plan.nodes[name].outputs)
    users = (user for value in values for user in float_users(value))
    return any(name_of(user.outputs[0]).endswith(SIGMOID) for user in users)


def _integer_gelu(editor: Editor, pair: ir.Value, plan: Plan, action: Action) -> Rejection | None:
    made = write_gelu(editor, pair, plan, action)
    if made is None:
        return None
    coded = _pair(editor, made, plan, str(action.get("activation")))
    if isinstance(coded, Rejection):
        return coded
    _redirect(editor, made, coded)
    return None


def _quantize_as_gemm(
    editor: Editor, node: ir.Node, plan: Plan, action: Action
) -> Rejection | None:
    dtype = str(action.get("activation"))
    if editor.model.graph.opset_imports.get("", 0) < _GEMM_OPSET:
        return Rejection(reason=f"its Gemm form needs opset {_GEMM_OPSET}")
    value = next(activations(node))[1]
    matrix = value.shape is not None and len(value.shape) == 2
    held = (_pair if matrix else _quantized)(editor, value, plan, dtype)
    if isinstance(held, Rejection):
        return held
    source = plan.scale(name_of(value), dtype)
    assert source is not None, "the codes of the activation were made with it"
    hold_groups(editor.model)
    made = write_gemm(editor, node, held, source, action)
    return made if isinstance(made, Rejection) else None


def _quantize_bias_of(editor: Editor, add: ir.Node, plan: Plan, dtype: str) -> Rejection | None:
    product = next(activations(add))[1].producer()
    assert product is not None, "is_bias found the MatMul"
    source = plan.scale(name_of(next(activations(product))[1]), dtype)
    assert source is not None, "the MatMul was quantized with it"
    return quantize_added_bias(editor, add, product, source)


def _is_gated(node: ir.Node, plan: Plan, dtype: str) -> bool:
    return dtype == "uint8" and name_of(next(activations(node))[1]) in plan.gated


def _integer_gate(editor: Editor, node: ir.Node, plan: Plan) -> ir.Node:
    """x * HardSigmoid(x) in the place of HardSwish, the second factor a Clip of x's codes."""
    made, source = node.outputs[0], node.inputs[0]
    assert source is not None, "the pair was set as its input"
    dequantize = source.producer()
    assert dequantize is not None, "the pair was set as its input"
    codes, name = dequantize.inputs[0], name_of(made)
    coded = plan.gated[name_of(through(source))]
    highest = np.asarray(min(2 * int(coded.zero), 255), np.uint8)
    nothing = editor.initializer(f"{name}__gate_zero", np.asarray(0, np.uint8))
    bounds = [nothing, editor.initializer(f"{name}__gate_one", highest)]
    clip = new_node("Clip", [codes, *bounds], output=f"{name}__gate_quantized", like=codes)
    scale = editor.initializer(f"{name}__gate_scale", np.asarray(coded.scale / 6, np.float32))
    gate = new_node(
        "DequantizeLinear",
        [clip.outputs[0], scale, nothing],
        output=f"{name}__gate",
        like=made,
    )
    product = new_node("Mul", [source, gate.outputs[0]], output=f"{name}__gated", like=made)
    editor.insert([clip, gate, product], before=node)
    editor.replace_value(made, product.outputs[0])
    editor.remove(node)
    return product


def _makes_codes(node: ir.Node, plan: Plan) -> bool:
    """Whether the result of a member is quantized whoever reads it."""
    name, made = name_of(node.outputs[0]), node.outputs[0]
    users = tuple(user for user, _ in made.uses())
    if len(users) == 1 and name_of(users[0].outputs[0]) in plan.fused:
        return False
    if name in plan.fused:
        # Left in float, the runtime would fuse it into a float Gemm before it sees the codes.
        return True
    if is_output(made):
        return node.op_type == "Conv"
    return node.op_type == "Conv" or node.op_type in ARITHMETIC | MOVING | JOINING


def _pair(editor: Editor, value: ir.Value, plan: Plan, dtype: str) -> ir.Value | Rejection:
    """The dequantized form of a value; makes its pair where it has none."""
    codes = _quantized(editor, value, plan, dtype)
    if isinstance(codes, Rejection):
        return codes
    quantize = codes.producer()
    assert quantize is not None, "it was just found"
    for user, _ in codes.uses():
        if user.op_type == "DequantizeLinear" and user.inputs[1] is quantize.inputs[1]:
            return user.outputs[0]
    inputs = [codes, *quantize.inputs[1:]]
    output = f"{name_of(value)}__dequantized"
    dequantize = new_node("DequantizeLinear", inputs, output=output, like=value)
    editor.insert_after([dequantize], after=quantize)
    return dequantize.outputs[0]


def _quantized(editor: Editor, value: ir.Value, plan: Plan, dtype: str) -> ir.Value | Rejection:
    """The codes of a value; quantizes it where nothing has yet."""
    name = name_of(value)
    for user, _ in bounded(value).uses():
        if user.op_type == "QuantizeLinear":
            held = user.outputs[0].dtype
            if held is not None and held.name.lower() != dtype:
                return Rejection(reason=f"{name!r} is coded as {held.name.lower()} already")
            return user.outputs[0]
    found = plan.scale(name, dtype)
    if found is None:
        return Rejection(reason=f"calibration has no range of {name!r}")
    scale = editor.initializer(f"{name}__scale", found.scale)
    zero = editor.initializer(f"{name}__zero", found.zero)
    bound = [write_bound(editor, value, found)] if sinks(value, plan.members) else []
    read = bound[0].outputs[0] if bound else value
    quantize = new_node("QuantizeLinear", [read, scale, zero], output=f"{name}__quantized")
    codes = quantize.outputs[0]
    codes.type, codes.shape = ir.TensorType(ir.DataType[dtype.upper()]), value.shape
    producer = value.producer()
    if producer is not None:
        editor.insert_after([*bound, quantize], after=producer)
    else:
        editor.insert([quantize], before=next(iter(editor.graph)))
    return codes


def _redirect(editor: Editor, made: ir.Value, dequantized: ir.Value) -> None:
    """Let all users of an integer result read its dequantized form, the graph's output too."""
    pair = [user for user, _ in made.uses() if user.op_type == "QuantizeLinear"]
    if made.is_graph_output():
        quantize = pair[0]
        editor.replace_value(made, dequantized)
        editor.set_input(quantize, 0, made)
    else:
        editor.replace_uses(made, dequantized, keep=pair)
