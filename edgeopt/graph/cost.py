"""What a graph costs by arithmetic alone: exact figures, no predictions of time."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.light import file_bytes
from edgeopt.graph.shapes import known_shapes

Shapes = Mapping[str, tuple[int, ...]]
_CONV = {"Conv": 1, "ConvInteger": 1, "FusedConv": 1, "NhwcFusedConv": 1, "QLinearConv": 3}
_MATMUL = {
    "MatMul": (0, 1),
    "FusedMatMul": (0, 1),
    "Gemm": (0, 1),
    "FusedGemm": (0, 1),
    "MatMulInteger": (0, 1),
    "MatMulIntegerToFloat": (0, 1),
    "DynamicQuantizeMatMul": (0, 1),
    "QGemm": (0, 3),
    "QLinearMatMul": (0, 3),
}
_RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCost:
    """One node of the main graph or of a subgraph.

    Args:
        name: The node's name.
        op: Operator type.
        macs: Multiply-accumulates of one run.
        bytes: Of its outputs, where their shapes are known.
        params: Elements of the constants that it reads.
    """

    name: str
    op: str
    macs: int
    bytes: int
    params: int


def static_cost(graph: ir.Model, shapes: Shapes | None = None) -> dict[str, float]:
    """Exact figures of a graph.

    Args:
        graph: Unchanged.
        shapes: Concrete shapes by value name, as `runtime.observed_shapes` gives them; without
            them the recorded shapes count, free dimensions as 1.

    Returns:
        `macs` (multiply-accumulates of convolutions, matrix products and recurrences),
        `params` (elements of all constants), `size_bytes` (of the self-contained file),
        `activation_bytes` (the peak over the nodes in order of what is alive: inputs, outputs and
        every intermediate value until its last use), `nodes` (subgraphs included). Both branches
        of an If count. Values without a known shape count as nothing.
    """
    known = known_shapes(graph, shapes)
    layers = _layers(graph, known)
    return {
        "macs": float(sum(layer.macs for layer in layers)),
        "params": float(_params(graph)),
        "size_bytes": float(file_bytes(graph)),
        "activation_bytes": float(_peak_bytes(graph.graph, known)),
        "nodes": float(len(layers)),
    }


def per_layer(graph: ir.Model, shapes: Shapes | None = None) -> tuple[LayerCost, ...]:
    """Cost node by node, in graph order, nodes of subgraphs behind the one that holds them."""
    return _layers(graph, known_shapes(graph, shapes))


def macs_of(node: ir.Node, shapes: Shapes) -> int:
    """Multiply-accumulates of one node; 0 for what does none and where a shape is unknown."""
    count = _counter(node.op_type)
    return 0 if count is None else count(node, shapes)


def value_bytes(value: ir.Value, shapes: Shapes) -> int:
    """Size of a value; unknown types count 4 bytes an element, unknown shapes and strings none."""
    shape = shapes.get(value.name or "")
    if shape is None or value.dtype == ir.DataType.STRING:
        return 0
    return math.ceil(math.prod(shape) * (value.dtype.itemsize if value.dtype else 4))


def _layers(graph: ir.Model, shapes: Shapes) -> tuple[LayerCost, ...]:
    return tuple(
        LayerCost(
            name=node.name or "",
            op=node.op_type,
            macs=macs_of(node, shapes),
            bytes=sum(value_bytes(value, shapes) for value in node.outputs),
            params=sum(_size(value) for value in dict.fromkeys(node.inputs)),
        )
        for node in graph.graph.all_nodes()
    )


def _params(graph: ir.Model) -> int:
    parts = (graph.graph, *graph.graph.subgraphs())
    held = {value for part in parts for value in part.initializers.values()}
    made = {v for n in graph.graph.all_nodes() if n.op_type == "Constant" for v in n.outputs}
    return sum(_size(value) for value in held | made)


def _size(value: ir.Value | None) -> int:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return 0 if tensor is None else tensor.size


def _peak_bytes(graph: ir.Graph, shapes: Shapes) -> int:
    nodes = list(graph)
    last: dict[ir.Value, int] = {}
    for index, node in enumerate(nodes):
        for value in (*node.inputs, *_captured(node)):
            if value is not None and not value.is_initializer():
                last[value] = index
    kept = {*graph.outputs, *graph.inputs}
    alive = {value: value_bytes(value, shapes) for value in graph.inputs}
    peak = sum(alive.values())
    for index, node in enumerate(nodes):
        alive |= {value: value_bytes(value, shapes) for value in node.outputs}
        peak = max(peak, sum(alive.values()))
        alive = {v: size for v, size in alive.items() if v in kept or last.get(v, -1) > index}
    return peak


def _captured(node: ir.Node) -> set[ir.Value]:
    """Values of outer graphs that a node's subgraphs read."""
    found: set[ir.Value] = set()
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            inner = attribute.as_graph()
            for child in inner.all_nodes():
                found |= {v for v in child.inputs if v is not None and v.graph is not inner}
    return found


def _counter(operator: str) -> Callable[[ir.Node, Shapes], int] | None:
    if operator in _CONV:
        return _conv
    if operator in _MATMUL:
        return _matmul
    if operator in _RECURRENT:
        return _recurrent
    return _conv_transpose if operator == "ConvTranspose" else None


def _shape(node: ir.Node, index: int, shapes: Shapes) -> tuple[int, ...]:
    value = node.inputs[index] if index < len(node.inputs) else None
    return () if value is None else shapes.get(value.name or "", ())


def _made(node: ir.Node, shapes: Shapes) -> tuple[int, ...]:
    return shapes.get(node.outputs[0].name or "", ())


def _conv(node: ir.Node, shapes: Shapes) -> int:
    # Weights are [out, in / group, kernel...]: one output element costs all but the first axis.
    weight, made = _shape(node, _CONV[node.op_type], shapes), _made(node, shapes)
    return math.prod(made) * math.prod(weight[1:]) if made and len(weight) > 1 else 0


def _conv_transpose(node: ir.Node, shapes: Shapes) -> int:
    # Weights are [in, out / group, kernel...]: every input element is spread over them.
    given, weight = _shape(node, 0, shapes), _shape(node, 1, shapes)
    return math.prod(given) * math.prod(weight[1:]) if given and len(weight) > 1 else 0


def _matmul(node: ir.Node, shapes: Shapes) -> int:
    left, _ = _MATMUL[node.op_type]
    given, made = _shape(node, left, shapes), _made(node, shapes)
    if not given or not made:
        return 0
    transposed = node.attributes.get("transA")
    inner = given[-2] if transposed is not None and transposed.as_int() else given[-1]
    return math.prod(made) * inner


def _recurrent(node: ir.Node, shapes: Shapes) -> int:
    given, recurrence = _shape(node, 0, shapes), _shape(node, 2, shapes)
    if len(given) != 3 or len(recurrence) != 3:
        return 0
    # R is [directions, gates * hidden, hidden], or transposed behind it in the quantized form.
    directions, hidden = recurrence[0], min(recurrence[1:])
    steps, batch, width = given
    gates = _RECURRENT[node.op_type]
    return steps * batch * directions * gates * hidden * (width + hidden)
