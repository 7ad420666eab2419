"""A float32 graph in float16: operators that may, with Cast at every border.

    half_form(model, keep)     the graph in half precision but for some of its operators
    kept_single(model, ...)    which operators cannot be, by what float16 cannot hold

Whether an operator may is what its schema says: a position whose type allows float16 becomes
float16, any other (the scales of a Resize) stays. Inputs and outputs of the model stay float32, and
so does what the bodies of If, Loop and Scan see. A constant is copied for those that read it in
float16; an operator that stays reads what it always read.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir

from edgeopt.graph.editor import array_of, new_node
from edgeopt.transforms.counts import counted, deciding, reads_counts
from edgeopt.transforms.emulate.half import LARGEST, SMALLEST_NORMAL, OutOfHalf
from edgeopt.transforms.groups import (
    QUANTIZERS,
    WEIGHTED,
    is_constant,
    is_quantized,
    is_weighted,
    name_of,
)
from edgeopt.transforms.quantize._norms import spelled_norms

_NEVER = QUANTIZERS | frozenset(
    {
        *("Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "Range", "CumSum"),
        *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
        *("Bernoulli", "Multinomial", "NonMaxSuppression"),
        *("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"),
    }
)
_RESULT_TYPES = ("dtype", "output_dtype", "output_datatype")
"""Attributes that say the type of a result, whatever is read."""
_BOUNDED = frozenset({"Clip", "Min", "Max", "Where"})
"""Their constants are bounds and fillings: at the end of the range they mean the same."""
_DIVIDING = frozenset({"Sqrt", "Div", "Reciprocal", "Log", "Pow"})
"""Behind an epsilon that float16 rounds to zero, these find a zero."""
_TYPED_SCALES = 19
"""From this operator set on a scale may be float16, and with it what is dequantized."""
_SINGLE, _HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16


def kept_single(model: ir.Model, found: Sequence[OutOfHalf]) -> list[str]:
    """Names of the first outputs of operators that must stay in float32, in graph order."""
    whole = {one.name for one in found if one.problem != "sum"}
    alone = {one.name for one in found if one.problem == "sum"}
    tiny = {one.name for one in found if one.problem == "vanishes" and one.operator == "constant"}
    kept: dict[str, None] = {}
    small: set[str] = set()
    exact = _exact(model, whole)
    for node in model.graph:
        given = [value.name or "" for value in node.inputs if value is not None]
        made = [value.name or "" for value in node.outputs]
        read = [
            name
            for name, value in zip(given, (v for v in node.inputs if v is not None), strict=True)
            if not (node.op_type in _BOUNDED and value.is_initializer())
        ]
        behind = node.op_type in _DIVIDING and not small.isdisjoint(given)
        if behind or not tiny.isdisjoint(given):
            small |= set(made)
        elif (
            node not in exact
            and whole.isdisjoint([*read, *made])
            and alone.isdisjoint(made)
            and not (node.op_type in QUANTIZERS and _has_fine_scale(node))
        ):
            continue
        kept[name_of(node.outputs[0])] = None
    _keep_norms(model, kept)
    return list(kept)


def _exact(model: ir.Model, whole: Set[str]) -> set[ir.Node]:
    """Operators on counts that must be right to the last digit.

    Those before a size or an index, and all behind a count that float16 has no digits for, up to
    what no longer counts: the one that reads it too, but for products, which are no counts.
    """
    opset = model.graph.opset_imports.get("", 1)
    counts = counted(model.graph)
    sizes = deciding(model.graph, counts, lambda user, index: _allows(user, opset, index))
    found: set[ir.Node] = set()
    inexact: set[ir.Value] = set()
    for node in model.graph:
        own = counts.intersection(node.outputs)
        read = inexact.intersection(v for v in node.inputs if v is not None)
        behind = bool(read) and node.op_type not in WEIGHTED and reads_counts(node, counts)
        if behind or not sizes.isdisjoint(own):
            found.add(node)
        inexact |= {value for value in own if behind or value.name in whole}
    return found


def _has_fine_scale(node: ir.Node) -> bool:
    """Whether float16 has too few digits for a scale, or for that of one of its channels."""
    scale = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
    return scale is None or bool((np.abs(scale) < SMALLEST_NORMAL).any())


def _keep_norms(model: ir.Model, kept: dict[str, None]) -> None:
    """Spelled normalizations keep one precision, and it is that of what they read.

    The runtime looks past the cast before one: it would take its operand from the other side.
    """
    opset = model.graph.opset_imports.get("", 1)
    norms = [(norm, _sources(norm)) for norm in spelled_norms(model.graph)]
    before = -1
    while len(kept) > before:
        before = len(kept)
        for norm, sources in norms:
            names = [name_of(node.outputs[0]) for node in norm]
            cast = any(
                made is None or name_of(made.outputs[0]) in kept or not _may(made, opset)
                for made in sources
            )
            if cast or not kept.keys().isdisjoint(names):
                made = [name_of(one.outputs[0]) for one in sources if one is not None]
                kept |= dict.fromkeys([*names, *made])


def _sources(norm: list[ir.Node]) -> list[ir.Node | None]:
    """What makes the values that a normalization reads; None for an input of the model."""
    own = {output for node in norm for output in node.outputs}
    read = [value for node in norm for value in node.inputs if value is not None]
    return [v.producer() for v in read if v not in own and not is_constant(v)]


def half_form(model: ir.Model, keep: Collection[str]) -> ir.Model:
    """A clone of the graph in half precision.

    Args:
        model: Sorted, with element types recorded; not changed.
        keep: Names of first outputs of nodes that stay in float32.
    """
    made = model.clone()
    graph = made.graph
    opset = graph.opset_imports.get("", 1)
    if opset >= _TYPED_SCALES:
        _separate_biases(graph, keep)
    halves = [node for node in graph if name_of(node.outputs[0]) not in keep and _may(node, opset)]
    # In graph order: names and positions of casts must not depend on chance.
    become = {
        value: None
        for node in halves
        for index, value in enumerate(node.outputs)
        if value.dtype is _SINGLE and _allows(node, opset, index, made=True)
    }
    narrowed: dict[ir.Value, ir.Value] = {}
    for node in halves:
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype is not _SINGLE or value in become:
                continue
            if _allows(node, opset, index):
                if value not in narrowed:
                    narrowed[value] = _narrow(graph, value)
                node.replace_input_with(index, narrowed[value])
        if node.op_type == "Cast":
            node.attributes["to"] = ir.AttrInt64("to", _HALF.value)
    inside = set(halves)
    for value in become:
        readers = [
            (user, index)
            for user, index in value.uses()
            if user not in inside or not _allows(user, opset, index)
        ]
        _widen(graph, value, readers)
    for value in become:
        value.type = ir.TensorType(_HALF)
    _drop_unused(graph, narrowed)
    return made


def _separate_biases(graph: ir.Graph, keep: Collection[str]) -> None:
    """Add the biases of integer layers behind them.

    The runtime gives a bias int32 codes before any provider sees it (WeightBiasQuantization). Their
    scale, that of the activation times that of the weight, and the codes themselves do not fit into
    half precision: 27 dB became 2 on a text recogniser (onnxruntime 1.32).
    """
    for node in [one for one in graph if one.op_type in ("Conv", "Gemm") and is_weighted(one)]:
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        array, made = array_of(bias), node.outputs[0]
        if bias is None or array is None or not is_quantized(node) or name_of(made) in keep:
            continue
        places = (1,) * (0 if made.shape is None else len(made.shape) - 2)
        if node.op_type == "Conv" and not places:
            continue
        name = f"{made.name}__bias_added"
        held = ir.Value(name=name, type=bias.type, shape=ir.Shape((*array.shape, *places)))
        factor = node.attributes.get_float("beta", 1.0) if node.op_type == "Gemm" else 1.0
        added = np.asarray(array * np.float32(factor), array.dtype)
        held.const_value = ir.Tensor(added.reshape((*array.shape, *places)), name=name)
        graph.register_initializer(held)
        readers = list(made.uses())
        add = new_node("Add", [made, held], output=made.name or "", like=made)
        made.name = f"{made.name}__summed"
        graph.insert_after(node, add)
        node.resize_inputs(2)
        for user, index in readers:
            user.replace_input_with(index, add.outputs[0])
        for index, output in enumerate(graph.outputs):
            if output is made:
                graph.outputs[index] = add.outputs[0]
        if bias.is_initializer() and not bias.uses():
            graph.initializers.pop(bias.name or "")


def has_half(model: ir.Model) -> bool:
    """Whether anything in the main graph is computed in half precision."""
    return any(output.dtype is _HALF for node in model.graph for output in node.outputs)


def could_be_half(model: ir.Model) -> bool:
    """Whether any operator of the main graph could."""
    opset = model.graph.opset_imports.get("", 1)
    return any(node.op_type != "Cast" and _may(node, opset) for node in model.graph)


def _may(node: ir.Node, opset: int) -> bool:
    if node.domain not in ("", "ai.onnx") or not node.outputs:
        return False
    held = [value for value in (*node.inputs, *node.outputs) if value is not None]
    if any(value.dtype is None or not isinstance(value.type, ir.TensorType) for value in held):
        # Unknown, or a sequence, which has the type of its elements only as a whole.
        return False
    if any(node.attributes.get_int(name, 0) == _SINGLE.value for name in _RESULT_TYPES):
        return False
    if node.op_type == "Cast":
        source = node.inputs[0]
        to = node.attributes.get_int("to", 0)
        return source is not None and source.dtype is not _SINGLE and to == _SINGLE.value
    typed = node.op_type in ("QuantizeLinear", "DequantizeLinear") and opset >= _TYPED_SCALES
    if (node.op_type in _NEVER and not typed) or any(
        attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for attribute in node.attributes.values()
    ):
        return False
    return any(
        value.dtype is _SINGLE and _allows(node, opset, index, made=True)
        for index, value in enumerate(node.outputs)
    ) or any(
        value is not None and value.dtype is _SINGLE and _allows(node, opset, index)
        for index, value in enumerate(node.inputs)
    )


def _allows(node: ir.Node, opset: int, index: int, *, made: bool = False) -> bool:
    """Whether a position of a node may be float16."""
    if node.op_type == "Cast":
        return made
    if node.domain not in ("", "ai.onnx"):
        return False
    allowed = _allowed(node.op_type, opset, made)
    return bool(allowed) and allowed[min(index, len(allowed) - 1)]


@cache
def _allowed(operator: str, opset: int, made: bool) -> tuple[bool, ...]:
    """By position; the last one stands for all that follow it."""
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return ()
    types = {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}
    positions = schema.outputs if made else schema.inputs
    names = [str(one.type_str) for one in positions]
    return tuple("tensor(float16)" in types.get(name, {name}) for name in names)


def _narrow(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """A float32 value in float16: a rounded constant, or behind a Cast."""
    array = array_of(value) if value.is_initializer() and not value.is_graph_input() else None
    name = f"{value.name}__float16"
    if array is not None:
        finite = np.where(np.isfinite(array), np.clip(array, -LARGEST, LARGEST), array)
        tensor = ir.Tensor(np.asarray(finite, np.float16, order="C"), name=name)
        held = ir.Value(name=name, type=ir.TensorType(_HALF), shape=value.shape)
        held.const_value = tensor
        graph.register_initializer(held)
        return held
    return _cast(graph, value, name, _HALF)


def _cast(graph: ir.Graph, value: ir.Value, name: str, to: ir.DataType) -> ir.Value:
    cast = new_node("Cast", [value], output=name, attributes={"to": to.value})
    cast.outputs[0].type, cast.outputs[0].shape = ir.TensorType(to), value.shape
    producer = value.producer()
    if producer is not None:
        graph.insert_after(producer, cast)
    else:
        graph.insert_before(next(iter(graph)), cast)
    return cast.outputs[0]


def _widen(graph: ir.Graph, value: ir.Value, readers: Iterable[tuple[ir.Node, int]]) -> None:
    """Let the readers, and the model's outputs, see a value in float32 that becomes float16."""
    found = list(readers)
    places = [index for index, output in enumerate(graph.outputs) if output is value]
    if not found and not places:
        return
    name = value.name or ""
    if places:
        value.name = f"{name}__float16"
    single = _cast(graph, value, name if places else f"{name}__float32", _SINGLE)
    for user, index in found:
        user.replace_input_with(index, single)
    for index in places:
        graph.outputs[index] = single


def _drop_unused(graph: ir.Graph, narrowed: Iterable[ir.Value]) -> None:
    outputs, inputs = set(graph.outputs), set(graph.inputs)
    for value in narrowed:
        held = value.name is not None and value.is_initializer()
        if held and not value.uses() and value not in outputs | inputs:
            graph.initializers.pop(value.name or "")
