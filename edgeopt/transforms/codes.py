"""Integer codes of a model that came quantized: which values hold them, and the same ones shifted.

    scale * (code - zero)  =  scale * ((code + 128) - (zero + 128))

int8 codes become uint8 codes, or the other way, and every operator that reads them subtracts the
zero point first and saturates at the same real values, so nothing changes but the type. Codes are
followed from what makes them, or from their constant, through operators that only move them, and
through integer operators, whose activations have one type. All of these are shifted, or none: not
where a zero point is computed, and not codes that are inputs or outputs of the model, which are
its contract.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.local_rule import input_of, integer, word

SHIFT = 128
TYPES: Mapping[str, ir.DataType] = {"int8": ir.DataType.INT8, "uint8": ir.DataType.UINT8}
_MOVING = frozenset(
    {
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split"),
        *("Identity", "MaxPool", "Gather", "DepthToSpace", "SpaceToDepth", "Concat", "Resize"),
    }
)
"""They copy codes, or order them; MaxPool pads with the lowest code of either type."""
_ONE = (((0, 2),), 4)
_TWO = (((0, 2), (3, 5)), 7)
_SLOTS: Mapping[str, tuple[tuple[tuple[int, int], ...], int | None]] = {
    "QuantizeLinear": ((), 2),
    "DequantizeLinear": (((0, 2),), None),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul"), _TWO),
    **dict.fromkeys(("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"), _ONE),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool"), _ONE),
    "QGemm": (((0, 2), (3, 5)), 8),
    "MatMulInteger": (((0, 2), (1, 3)), None),
    "ConvInteger": (((0, 2), (1, 3)), None),
    "MatMulIntegerToFloat": (((0, 4), (1, 5)), None),
    "DynamicQuantizeMatMul": (((1, 3),), None),
    "DynamicQuantizeLSTM": (((1, 9), (2, 11)), None),
}
"""Operator to the inputs that are codes, each with its zero point, and the result's zero point."""
_WEIGHT_PLACES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QGemm"), (3,)),
    **dict.fromkeys(("MatMulInteger", "ConvInteger", "MatMulIntegerToFloat"), (1,)),
    "DynamicQuantizeMatMul": (1,),
    "DynamicQuantizeLSTM": (1, 2),
}
_LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Concat"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """Values that hold codes of one kind, so that they change their type together.

    Args:
        values: In the order in which they were found.
        dtype: `int8` or `uint8`.
        kind: `weight` of constants that layers multiply with, `activation` of what is computed
            and of constants that are computed with likewise, `other` of tables that are read.
    """

    values: tuple[ir.Value, ...]
    dtype: str
    kind: Literal["weight", "activation", "other"]


def carriers(model: ir.Model) -> Iterator[Carrier]:
    """Every set of codes of the main graph that may be shifted."""
    seen: set[ir.Value] = set()
    for node in model.graph:
        for value in _codes_around(node):
            if value in seen:
                continue
            together = _together(value)
            seen |= set(together)
            dtype = _dtype(value)
            if dtype is None or not all(_may_shift(each, dtype) for each in together):
                continue
            yield Carrier(values=tuple(together), dtype=dtype, kind=_kind(together))


def zero_points(carrier: Carrier) -> Iterator[npt.NDArray[Any]]:
    """The zero points with which these codes are made and read; 0 where it is left out."""
    for node, index in _zeros(carrier):
        held = array_of(input_of(node, index))
        yield np.zeros((), carrier.dtype) if held is None else held


def shifted(model: ir.Model, wanted: Callable[[Carrier], bool]) -> ir.Model:
    """A clone in which some codes have the other type; its outputs are the same.

    Args:
        model: Unchanged.
        wanted: Which carriers change.
    """
    made = model.clone()
    for carrier in [each for each in carriers(made) if wanted(each)]:
        _shift(made.graph, carrier)
    return made


def _kind(values: list[ir.Value]) -> Literal["weight", "activation", "other"]:
    if any(_makes_codes(value) for value in values):
        return "activation"
    if _all_read(values, _multiplies):
        return "weight"
    return "activation" if _all_read(values, _computes) else "other"


def _codes_around(node: ir.Node) -> Iterator[ir.Value]:
    for index in _reads(node):
        value = input_of(node, index)
        if value is not None:
            yield value
    if _made_zero(node) is not None:
        yield node.outputs[0]


def _reads(node: ir.Node) -> dict[int, int]:
    """Inputs that are codes, each with the place of its zero point."""
    if node.op_type == "QLinearConcat":
        return {index: index + 2 for index in range(2, len(node.inputs), 3)}
    return dict(_SLOTS[node.op_type][0]) if node.op_type in _SLOTS else {}


def _made_zero(node: ir.Node) -> int | None:
    """Where the zero point of what a node makes stands; None where it makes no codes."""
    if node.op_type == "QLinearConcat":
        return 1
    place = _SLOTS[node.op_type][1] if node.op_type in _SLOTS else None
    if node.op_type == "QGemm" and place is not None and input_of(node, place) is None:
        return None
    return place


def _together(start: ir.Value) -> list[ir.Value]:
    """All values that have the type of one of them."""
    found: dict[ir.Value, None] = {}
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found[value] = None
        made = value.producer()
        if made is not None:
            waiting += _partners(made)
        for user, index in value.uses():
            if not (index in _WEIGHT_PLACES.get(user.op_type, ()) and made is None):
                waiting += _partners(user) if index in _reads(user) or _moves(user, index) else ()
    return list(found)


def _partners(node: ir.Node) -> list[ir.Value]:
    """Codes of one node that have one type: what it moves, or its activations and its result."""
    if node.op_type in _MOVING:
        given = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        made = node.outputs[:1] if node.op_type == "MaxPool" else node.outputs
        return [value for value in (*given, *made) if value is not None]
    if _made_zero(node) is None:
        return []
    weights = _WEIGHT_PLACES.get(node.op_type, ())
    read = [(index, input_of(node, index)) for index in _reads(node)]
    kept = [v for i, v in read if v is not None and not (i in weights and v.producer() is None)]
    return [*kept, node.outputs[0]]


def _moves(node: ir.Node, index: int) -> bool:
    if node.op_type == "Resize" and word(node, "mode", "nearest") != "nearest":
        return False
    return node.op_type in _MOVING and (index == 0 or node.op_type == "Concat")


def _dtype(value: ir.Value) -> str | None:
    held = array_of(value)
    name = str(held.dtype) if held is not None else value.dtype.name.lower() if value.dtype else ""
    made = value.producer()
    if not name and made is not None and (place := _made_zero(made)) is not None:
        zero = array_of(input_of(made, place))
        name = "uint8" if zero is None else str(zero.dtype)
    return name if name in TYPES else None


def _may_shift(value: ir.Value, dtype: str) -> bool:
    """Whether all that makes and reads these codes can be told another zero point."""
    if value.is_graph_input() or value.is_graph_output() or _dtype(value) != dtype:
        return False
    made = value.producer()
    if made is None:
        if array_of(value) is None:
            return False
    elif not (_moves(made, 0) or _is_known(made, _made_zero(made), dtype)):
        return False
    return all(
        _moves(user, index) or _is_known(user, _reads(user).get(index), dtype)
        for user, index in value.uses()
    )


def _is_known(node: ir.Node, place: int | None, dtype: str) -> bool:
    if place is None:
        return False
    zero = input_of(node, place)
    if zero is None:
        return array_of(input_of(node, 1)) is not None or node.op_type not in _SCALED
    held = array_of(zero)
    return held is not None and str(held.dtype) == dtype


_SCALED = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Their zero point has the shape of their scale."""


def _makes_codes(value: ir.Value) -> bool:
    made = value.producer()
    return made is not None and _made_zero(made) is not None and not quantizes_constant(made)


def quantizes_constant(node: ir.Node) -> bool:
    """Whether a QuantizeLinear computes the same int8 or uint8 codes every time."""
    if node.op_type != "QuantizeLinear" or node.attributes.get_int("block_size", 0):
        return False
    if node.outputs[0].is_graph_output() or _dtype(node.outputs[0]) is None:
        return False
    held = [array_of(value) for value in node.inputs if value is not None]
    real = held[0] if held else None
    return all(each is not None for each in held) and real is not None and real.dtype == np.float32


def fold_constants(model: ir.Model) -> None:
    """Put codes in the place of each QuantizeLinear of a constant, in the main graph."""
    graph = model.graph
    for node in [each for each in graph if quantizes_constant(each)]:
        made, source = node.outputs[0], node.inputs[0]
        held = ir.Value(name=f"{made.name}__codes", type=made.type)
        codes = _codes_of(node)
        held.const_value = ir.Tensor(codes, name=held.name)
        held.type, held.shape = ir.TensorType(TYPES[str(codes.dtype)]), ir.Shape(codes.shape)
        graph.register_initializer(held)
        for user, index in tuple(made.uses()):
            user.replace_input_with(index, held)
        read = tuple(node.inputs)
        graph.remove(node, safe=True)
        for value in (source, *read[1:]):
            unused = value is not None and value.is_initializer() and not value.uses()
            if value is not None and unused and not value.is_graph_output():
                graph.initializers.pop(value.name or "", None)


def _codes_of(node: ir.Node) -> npt.NDArray[Any]:
    real, scale, zero = (array_of(input_of(node, index)) for index in range(3))
    assert real is not None, "quantizes_constant has looked"
    assert scale is not None, "quantizes_constant has looked"
    zero = np.zeros(scale.shape, np.uint8) if zero is None else zero
    shape = [1] * real.ndim
    if scale.ndim and real.ndim:
        shape[integer(node, "axis", 1)] = -1
    spread = scale.reshape(shape) if scale.ndim else scale
    limits = np.iinfo(zero.dtype)
    middle = zero.reshape(spread.shape).astype(np.float32)
    return np.clip(np.rint(real / spread) + middle, limits.min, limits.max).astype(zero.dtype)


def _all_read(values: list[ir.Value], fits: Callable[[ir.Node, int], bool]) -> bool:
    """Whether every reader of codes that are constants fits, behind what moves them."""
    read = [use for value in values for use in value.uses() if not _moves(*use)]
    return bool(read) and all(fits(user, index) for user, index in read)


def _multiplies(node: ir.Node, index: int) -> bool:
    """Whether a node multiplies an activation with the codes at one of its inputs."""
    if node.op_type != "DequantizeLinear":
        return index in _WEIGHT_PLACES.get(node.op_type, ())
    return _reach(node.outputs[0], lambda user, at: user.op_type in _LAYERS and at == 1)


def _computes(node: ir.Node, index: int) -> bool:
    """Whether a node computes with constant codes as with an activation."""
    if node.op_type != "DequantizeLinear":
        return index in _reads(node) and not _multiplies(node, index)
    return _reach(node.outputs[0], lambda user, _: user.op_type in _ARITHMETIC)


def _reach(value: ir.Value, fits: Callable[[ir.Node, int], bool]) -> bool:
    uses = list(value.uses())
    return bool(uses) and all(
        _reach(user.outputs[0], fits)
        if user.op_type in ("Transpose", "Reshape", "Identity")
        else fits(user, index)
        for user, index in uses
    )


def _zeros(carrier: Carrier) -> Iterator[tuple[ir.Node, int]]:
    """Every place of a zero point of these codes, once."""
    found: dict[tuple[ir.Node, int], None] = {}
    for value in carrier.values:
        made = value.producer()
        if made is not None and (place := _made_zero(made)) is not None:
            found[made, place] = None
        for user, index in value.uses():
            if index in _reads(user):
                found[user, _reads(user)[index]] = None
    yield from found


def _shift(graph: ir.Graph, carrier: Carrier) -> None:
    """Write the other type at codes, and at the zero points of who makes and reads them."""
    target = "uint8" if carrier.dtype == "int8" else "int8"
    step = SHIFT if target == "uint8" else -SHIFT
    for node, index in list(_zeros(carrier)):
        _set_zero(graph, node, index, target, step)
        if node.op_type == "QuantizeLinear":
            # From opset 21 on it may say the type as well; the zero point says it alone.
            node.attributes.pop("output_dtype", None)
    for value in carrier.values:
        held = array_of(value) if value.producer() is None else None
        if held is not None:
            codes = (held.astype(np.int16) + step).astype(target)
            value.const_value = ir.Tensor(codes, name=value.name)
        value.type = ir.TensorType(TYPES[target])


def _set_zero(graph: ir.Graph, node: ir.Node, index: int, target: str, step: int) -> None:
    old, held = input_of(node, index), array_of(input_of(node, index))
    if held is None:
        scale = array_of(input_of(node, 1)) if node.op_type in _SCALED else None
        held = np.zeros(() if scale is None else scale.shape, np.int16)
    if str(held.dtype) == target:
        return
    zero = np.asarray(held.astype(np.int16) + step, target)
    name = f"{node.outputs[0].name}__zero{index}" if old is None else f"{old.name}__{target}"
    made = graph.initializers.get(name)
    if made is None:
        made = ir.Value(name=name, type=ir.TensorType(TYPES[target]), shape=ir.Shape(zero.shape))
        made.const_value = ir.Tensor(zero, name=name)
        graph.register_initializer(made)
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    node.replace_input_with(index, made)
    unused = old is not None and old.is_initializer() and not old.uses()
    if old is not None and unused and not old.is_graph_output():
        graph.initializers.pop(old.name or "")
