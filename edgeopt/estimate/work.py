"""What a graph makes a runtime do, counted by kind of work and precision: the model's features.

A latency that is linear in them has a price a node (its multiply-adds or elements, by precision)
and a price an edge (elements that cross from float to integer codes or back, with the change of
layout that goes with it). What the runtime fuses away is not counted (`fused`): a bias, an
activation or a residual Add behind a convolution, a quantizer behind an integer kernel. The
reading is that of ONNX Runtime's CPU provider; a refit makes up for other devices.

Prices: multiply-adds and elements from micro-benchmarks of one x86 core with VNNI, borders and
integer elements from 40 assignments of a PP-LCNet there. They are where a fit starts, in their
ratios to each other only.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.estimate.fused import ACTIVATIONS, host_of
from edgeopt.graph.cost import macs_of
from edgeopt.graph.shapes import known_shapes
from edgeopt.transforms.groups import ARITHMETIC, JOINING, MOVING, is_constant

Shapes = Mapping[str, tuple[int, ...]]
PRICES_US: Mapping[str, float] = {
    "conv_float": 11.0,
    "conv_int": 2.8,
    "depthwise_float": 20.0,
    "depthwise_int": 40.0,
    "gemm_float": 11.0,
    "gemm_int": 1.7,
    "recurrent_float": 12.0,
    "recurrent_int": 2.0,
    "ragged_float": 3.0,
    "ragged_int": 10.0,
    "elements_float": 30.0,
    "elements_int": 14.0,
    "broadcast_float": 30.0,
    "entering": 20.0,
    "leaving": 60.0,
    "nodes": 3.0,
}
"""Microseconds a million multiply-adds, a hundred thousand elements, or a node."""
NAMES = tuple(PRICES_US)
_MACS, _ELEMENTS = 1e6, 1e5
_BLOCK = 16
"""Channels that are no multiple of it leave the blocked layout, or the fast integer kernel."""
_MATMUL = frozenset({"Gemm", "MatMul", "FusedMatMul", "FusedGemm", "QGemm", "MatMulNBits"})
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"})
_CODED = frozenset(
    {
        "ConvInteger",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul",
        "DynamicQuantizeLSTM",
        "MatMulNBits",
        "QLinearConv",
        "QLinearMatMul",
        "QGemm",
    }
)
_FREE = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "Constant"}
)
_BORDERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


def work_of(graph: ir.Model, shapes: Shapes | None = None) -> npt.NDArray[np.float64]:
    """Amounts [features] in the order of `NAMES`, in the units of `PRICES_US`.

    Args:
        graph: Unchanged; the bodies of subgraphs are not counted.
        shapes: Concrete shapes by value name; without them recorded ones, free sizes as 1.
    """
    known = known_shapes(graph, shapes)
    found = dict.fromkeys(NAMES, 0.0)
    for node in graph.graph:
        if node.op_type in _BORDERS:
            _count_border(node, known, found)
        elif not _constant_work(node):
            _count(node, known, found)
    return np.array([found[name] for name in NAMES])


def is_integer(node: ir.Node) -> bool:
    """Whether a node will be computed in integers: codes in, and codes out where it needs that."""
    if node.op_type in _CODED or (node.op_type in ACTIVATIONS and _codes(node.inputs[0])):
        return True
    inputs = [value for value in node.inputs if value is not None and not is_constant(value)]
    if not inputs or not all(_dequantized(value) for value in inputs):
        return False
    weighted = node.op_type in _MATMUL or node.op_type == "Conv"
    if weighted and len(node.inputs) > 1 and is_constant(node.inputs[1]):
        weight = node.inputs[1]
        coded = weight is not None and _dequantized(weight)
        return coded and (node.op_type in _MATMUL or _quantized_behind(node))
    if node.op_type in ACTIVATIONS | ARITHMETIC | MOVING | JOINING | _MATMUL:
        return _quantized_behind(node)
    return False


def _count(node: ir.Node, shapes: Shapes, found: dict[str, float]) -> None:
    if host_of(node) is not None:
        return
    integer = is_integer(node)
    kind = "int" if integer else "float"
    found["nodes"] += node.op_type not in _FREE
    macs = macs_of(node, shapes) / _MACS
    if macs:
        work = _work(node, shapes)
        found[f"{work}_{kind}"] += macs
        if work in {"conv", "depthwise"} and _channels(node, shapes) % _BLOCK:
            found[f"ragged_{kind}"] += macs
    elif node.op_type not in _FREE:
        elements = _elements(node.outputs[0], shapes)
        found[f"elements_{kind}"] += max(elements, _read(node, shapes)) / _ELEMENTS
        if not integer and _broadcasts(node, shapes):
            found["broadcast_float"] += elements / _ELEMENTS


def _count_border(node: ir.Node, shapes: Shapes, found: dict[str, float]) -> None:
    source = node.inputs[0]
    if source is None or is_constant(source):
        return
    if node.op_type == "DequantizeLinear":
        users = [user for user, _ in node.outputs[0].uses()]
        needed = node.outputs[0].is_graph_output() or not all(map(is_integer, users))
        found["leaving"] += needed * _elements(node.outputs[0], shapes) / _ELEMENTS
    else:
        before = source.producer()
        made = before is not None and (is_integer(before) or _codes_reach(before))
        found["entering"] += (not made) * _elements(source, shapes) / _ELEMENTS


def _codes_reach(node: ir.Node) -> bool:
    """Whether a node is the fused activation of an integer one."""
    before = host_of(node)
    return before is not None and is_integer(before)


def _work(node: ir.Node, shapes: Shapes) -> str:
    if node.op_type in _RECURRENT:
        return "recurrent"
    if "Conv" not in node.op_type:
        return "gemm"
    group = node.attributes.get("group")
    count = 1 if group is None else group.as_int()
    return "depthwise" if count > 1 and count == _channels(node, shapes) else "conv"


def _channels(node: ir.Node, shapes: Shapes) -> int:
    shape = shapes.get(node.outputs[0].name or "", ())
    return shape[1] if len(shape) > 1 else 0


def _quantized_behind(node: ir.Node) -> bool:
    users = [user for user, _ in node.outputs[0].uses()]
    if any(user.op_type == "QuantizeLinear" for user in users):
        return True
    if len(users) != 1 or users[0].op_type not in ACTIVATIONS:
        return False
    return host_of(users[0]) is node and _quantized_behind(users[0])


def _dequantized(value: ir.Value) -> bool:
    made = value.producer()
    return made is not None and made.op_type == "DequantizeLinear"


def _codes(value: ir.Value | None) -> bool:
    made = None if value is None else value.producer()
    return made is not None and made.op_type == "QuantizeLinear"


def _constant_work(node: ir.Node) -> bool:
    """Whether the runtime computes a node once, when it loads the model."""
    inputs = [value for value in node.inputs if value is not None]
    return not inputs or all(is_constant(value) for value in inputs)


def _read(node: ir.Node, shapes: Shapes) -> int:
    """Elements of the largest activation that a node reads: reductions make little of much."""
    values = (v for v in node.inputs if v is not None and not is_constant(v))
    return max((_elements(value, shapes) for value in values), default=0)


def _broadcasts(node: ir.Node, shapes: Shapes) -> bool:
    made = shapes.get(node.outputs[0].name or "")
    inputs = [v for v in node.inputs if v is not None and not is_constant(v)]
    if len(inputs) < 2 or made is None or node.op_type not in {"Mul", "Add"}:
        return False
    return any(shapes.get(value.name or "", made) != made for value in inputs)


def _elements(value: ir.Value, shapes: Shapes) -> int:
    shape = shapes.get(value.name or "")
    return 0 if shape is None else math.prod(shape)
