"""What a graph makes a runtime do, counted by kind of work and precision: the model's features.

A latency that is linear in them has a price a node (its multiply-adds or elements, by precision)
and a price an edge (elements that cross from float to integer codes or back, with the change of
layout that goes with it). What the runtime fuses away is not counted (`fused`): a bias, an
activation or a residual Add behind a convolution, a quantizer behind an integer kernel. The
reading is that of ONNX Runtime's CPU provider; a refit makes up for other devices. What was asked
for in integers and has no kernel there is counted as it runs: its work in float, with a border on
either side. Which that is, placements say later than a graph is counted (`kernels`), so that
`Work` holds both.

Prices: multiply-adds and elements from micro-benchmarks of one x86 core with VNNI, borders and
integer elements from 40 assignments of a PP-LCNet there. They are where a fit starts, in their
ratios to each other only.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.estimate.fused import host_of
from edgeopt.estimate.kernels import Kernels, is_coded, kernel_of
from edgeopt.graph.cost import macs_of
from edgeopt.graph.shapes import known_shapes
from edgeopt.transforms.groups import QUANTIZERS, is_constant

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
    "islands": 10.0,
}
"""Microseconds a million multiply-adds, a hundred thousand elements, or a node. Elements at the
borders of an island (dequantize, compute in float, quantize again) change no layout on their way:
they cost a sixth of what leaves for a float convolution."""
NAMES = tuple(PRICES_US)
_MACS, _ELEMENTS = 1e6, 1e5
UNSEEN = Kernels()
"""Before any placement is known."""
_BLOCK = 16
"""Channels that are no multiple of it leave the blocked layout, or the fast integer kernel."""
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"})
_FREE = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "Constant"}
)
Floats = npt.NDArray[np.float64]
Amounts = dict[str, float]
Asked = Mapping[ir.Node, str]
"""Node to the kind of its integer kernel; empty for what asks for none."""


@dataclass(frozen=True)
class Work:
    """What a graph makes a runtime do, whatever integer kernels that has.

    Args:
        parts: Kinds of asked operators to amounts [features]: first where the runtime has integer
            kernels for all of them, then where it lacks one.
    """

    parts: Mapping[frozenset[str], tuple[Floats, Floats]]

    def under(self, kernels: Kernels) -> Floats:
        """Amounts [features] in the order of `NAMES`, in the units of `PRICES_US`."""
        found = np.zeros(len(NAMES))
        for kinds, (integers, floats) in self.parts.items():
            found += integers if all(map(kernels.has, kinds)) else floats
        return found


def work_of(graph: ir.Model, shapes: Shapes | None = None, kernels: Kernels = UNSEEN) -> Floats:
    """Amounts [features] in the order of `NAMES`, in the units of `PRICES_US`.

    Args:
        graph: Unchanged; the bodies of subgraphs are not counted.
        shapes: Concrete shapes by value name; without them recorded ones, free sizes as 1.
        kernels: Which asked operators run in integers.
    """
    return counted(graph, shapes).under(kernels)


def counted(graph: ir.Model, shapes: Shapes | None = None) -> Work:
    """The same, before it is known which asked operators run in integers."""
    known = known_shapes(graph, shapes)
    asked = {node: kernel_of(node) for node in graph.graph}
    found: dict[frozenset[str], tuple[Amounts, Amounts]] = {}
    for node in graph.graph:
        kinds = _kinds(node, asked)
        sides = found.setdefault(kinds, ({}, {}))
        for side, held in zip((True, False), sides, strict=True):
            if side or kinds:
                for name, amount in _amounts(node, known, asked, has_kernels=side):
                    held[name] = held.get(name, 0.0) + amount
    return Work({kinds: (_array(a), _array(b)) for kinds, (a, b) in found.items() if a or b})


def _array(amounts: Amounts) -> Floats:
    return np.array([amounts.get(name, 0.0) for name in NAMES])


def _kinds(node: ir.Node, asked: Asked) -> frozenset[str]:
    """The kinds of asked operators whose kernels decide what a node costs."""
    if node.op_type == "DequantizeLinear":
        near = [user for user, _ in node.outputs[0].uses()]
    elif node.op_type == "QuantizeLinear":
        near = _makers(node)
    else:
        near = [node]
    return frozenset(asked.get(each, "") for each in near) - {""}


def _makers(quantizer: ir.Node) -> list[ir.Node]:
    """The node whose result is quantized and, where it is a fused activation, its host."""
    before = None if quantizer.inputs[0] is None else quantizer.inputs[0].producer()
    host = None if before is None else host_of(before)
    return [each for each in (before, host) if each is not None]


def _amounts(
    node: ir.Node, shapes: Shapes, asked: Asked, *, has_kernels: bool
) -> Iterator[tuple[str, float]]:
    if node.op_type in QUANTIZERS:
        yield from _of_border(node, shapes, asked, has_kernels)
    elif not _constant_work(node) and host_of(node) is None:
        integer = is_coded(node) or (has_kernels and bool(asked[node]))
        yield from _of_operator(node, shapes, integer)


def _of_operator(node: ir.Node, shapes: Shapes, integer: bool) -> Iterator[tuple[str, float]]:
    kind = "int" if integer else "float"
    yield "nodes", float(node.op_type not in _FREE)
    macs = macs_of(node, shapes) / _MACS
    if macs:
        work = _work(node, shapes)
        yield f"{work}_{kind}", macs
        if work in {"conv", "depthwise"} and _channels(node, shapes) % _BLOCK:
            yield f"ragged_{kind}", macs
    elif node.op_type not in _FREE:
        elements = _elements(node.outputs[0], shapes)
        yield f"elements_{kind}", max(elements, _read(node, shapes)) / _ELEMENTS
        if not integer and _broadcasts(node, shapes):
            yield "broadcast_float", elements / _ELEMENTS


def _of_border(
    node: ir.Node, shapes: Shapes, asked: Asked, has_kernels: bool
) -> Iterator[tuple[str, float]]:
    """Elements that cross, where nothing makes the border a part of an integer kernel."""
    source, into = node.inputs[0], node.op_type == "DequantizeLinear"
    if source is None or is_constant(source):
        return
    users = [user for user, _ in node.outputs[0].uses()]
    near = users if into else _makers(node)
    inside = [is_coded(other) or bool(asked.get(other)) for other in near]
    fits = (all(inside) if into else any(inside)) and not node.outputs[0].is_graph_output()
    if not fits or not has_kernels:
        # Only float convolutions have a layout of their own.
        island = fits and all(other.op_type != "Conv" for other in near)
        outer = "leaving" if into else "entering"
        yield ("islands" if island else outer), _elements(source, shapes) / _ELEMENTS


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
