"""A graph and its legal actions as arrays of fixed shapes: what a policy network looks at.

| key | shape | content |
|---|---|---|
| `node_op` | [nodes] int32 | operator code, 0 is padding |
| `node_x` | [nodes, 24] float32 | columns in `NODE_COLUMNS` |
| `edge_index` | [2, edges] int32 | from, to; padding points at the last node slot |
| `action_type` | [actions] int32 | code of the transform, 0 is padding |
| `action_nodes` | [actions, 4] int32 | rows of the nodes around the site plus 1, 0 is none |
| `action_x` | [actions, 8] float32 | columns in `ACTION_COLUMNS` |
| `glob` | [8] float32 | columns in `GLOBAL_COLUMNS` |

Sizes are logarithms, so everything is finite and of the order of one to thirty. Codes never
change: known operators have the place that they have in `OPERATORS`, others fall into buckets by
a hash of their name. What an environment knows beside the graph (predictions, preferences, budget)
it adds itself.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Array
from edgeopt.graph.cost import macs_of, value_bytes
from edgeopt.graph.shapes import known_shapes

# Never reorder and never remove: a trained policy knows operators by their place.
OPERATORS: tuple[str, ...] = (
    *("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"),
    *("BatchNormalization", "LayerNormalization", "InstanceNormalization", "Relu"),
    *("LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"),
    *("Erf", "Gelu", "Softmax", "LogSoftmax", "Elu", "Softplus", "Exp", "Log", "Sqrt"),
    *("Pow", "Abs", "Neg", "Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean"),
    *("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean"),
    *("ReduceSum", "ReduceMax", "ArgMax", "TopK", "Concat", "Split", "Slice"),
    *("Gather", "Pad", "Resize", "Transpose", "Reshape", "Flatten", "Squeeze"),
    *("Unsqueeze", "Expand", "Shape", "Cast", "Identity", "Where", "Equal", "Greater"),
    *("Less", "If", "Loop", "Scan", "Constant", "ConstantOfShape", "Range", "Einsum"),
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv"),
    *("QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm", "FusedConv"),
    *("FusedMatMul", "Attention", "MultiHeadAttention"),
)
BUCKETS = 32
_FIRST_BUCKET = 128
CODES = _FIRST_BUCKET + BUCKETS
"""Every operator code is below this."""

NODE_COLUMNS = (
    *("macs", "params", "made_bytes", "read_bytes", "rank", "batch", "channels", "height", "width"),
    *(
        "kernel",
        "stride",
        "group",
        "depthwise",
        "fan_in",
        "fan_out",
        "depth",
        "is_float",
        "is_int8",
    ),
    *("is_float16", "reads_input", "is_output", "in_integers", "has_subgraph", "constant_share"),
)
ACTION_COLUMNS = (
    *(
        "anchors",
        "macs",
        "params",
        "made_bytes",
        "numeric",
        "width_bits",
        "position",
        "whole_model",
    ),
)
GLOBAL_COLUMNS = (
    *(
        "nodes",
        "edges",
        "actions",
        "macs",
        "params",
        "made_bytes",
        "integer_share",
        "dropped_nodes",
    ),
)
_LAYERS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "QLinearConv", "QGemm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Fixed sizes of the arrays; what is beyond is left out and counted in `glob`."""

    nodes: int = 512
    edges: int = 1024
    actions: int = 256


def features(
    graph: ir.Model,
    actions: Sequence[Action],
    limits: Limits = Limits(),
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, Array]:
    """The arrays of the table above.

    Args:
        graph: Unchanged. Its main graph is shown; a node with subgraphs is one node.
        actions: One row each, in this order; an environment puts them into its slots.
        limits: Sizes.
        shapes: Concrete shapes; without them the recorded ones, free dimensions as 1.
    """
    known = known_shapes(graph, shapes)
    nodes = list(graph.graph)
    rows = {node: index for index, node in enumerate(nodes[: limits.nodes])}
    table = _node_table(nodes, known)
    shown = len(rows)
    node_op = np.zeros(limits.nodes, np.int32)
    node_op[:shown] = [operator_code(node.op_type, node.domain) for node in rows]
    node_x = np.zeros((limits.nodes, len(NODE_COLUMNS)), np.float32)
    node_x[:shown] = table[:shown]
    edges = [(a, b) for a, b in _edges(rows)][: limits.edges]
    edge_index = np.full((2, limits.edges), limits.nodes - 1, np.int32)
    if edges:
        edge_index[:, : len(edges)] = np.array(edges, np.int32).T
    glob = [*map(_log, (len(nodes), len(edges), len(actions), *_totals(table)))]
    glob += [float(table[:, NODE_COLUMNS.index("in_integers")].mean()) if nodes else 0.0]
    glob += [_log(len(nodes) - shown)]
    return {
        "node_op": node_op,
        "node_x": node_x,
        "edge_index": edge_index,
        **_action_tables(graph, actions, rows, node_x, limits),
        "glob": np.array(glob, np.float32),
    }


def node_row(
    node: ir.Node, shapes: Mapping[str, tuple[int, ...]], depth: float = 0.0
) -> tuple[float, ...]:
    """`NODE_COLUMNS` of one node, for whoever keeps rows between edits."""
    return _node_row(node, shapes, depth)


def operator_code(operator: str, domain: str = "") -> int:
    """A stable code from 1 to CODES - 1: by table, or by a hash of domain and name."""
    if domain in {"", "com.microsoft"} and operator in OPERATORS:
        return OPERATORS.index(operator) + 1
    return _FIRST_BUCKET + _bucket(f"{domain}:{operator}", BUCKETS)


def transform_code(transform: str) -> int:
    """A stable code from 1 to 255 of a transform's name; 0 is no action."""
    return 1 + _bucket(transform, 255)


def _bucket(name: str, count: int) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big") % count


def _log(value: float) -> float:
    return math.log2(1 + max(value, 0.0))


def _node_table(
    nodes: Sequence[ir.Node], shapes: Mapping[str, tuple[int, ...]]
) -> npt.NDArray[np.float32]:
    depth: dict[ir.Node, int] = {}
    for node in nodes:
        before = [depth.get(p, 0) for v in node.inputs if v is not None and (p := v.producer())]
        depth[node] = 1 + max(before, default=0)
    deepest = max(depth.values(), default=1)
    rows = [_node_row(node, shapes, depth[node] / deepest) for node in nodes]
    return np.array(rows, np.float32).reshape(len(rows), len(NODE_COLUMNS))


def _node_row(
    node: ir.Node, shapes: Mapping[str, tuple[int, ...]], depth: float
) -> tuple[float, ...]:
    inputs = [value for value in node.inputs if value is not None]
    constants = [t for v in inputs if (t := ir.convenience.get_const_tensor(v)) is not None]
    made = shapes.get(node.outputs[0].name or "", ()) if node.outputs else ()
    axes = [*made[:4], 0, 0, 0, 0][:4]
    kernel, stride, group = (_attribute(node, n) for n in ("kernel_shape", "strides", "group"))
    dtype = node.outputs[0].dtype if node.outputs else None
    eight_bits = {ir.DataType.INT8, ir.DataType.UINT8}
    return (
        _log(macs_of(node, shapes)),
        _log(sum(tensor.size for tensor in constants)),
        _log(sum(value_bytes(value, shapes) for value in node.outputs)),
        _log(sum(value_bytes(v, shapes) for v in inputs if not v.is_initializer())),
        float(len(made)),
        *map(_log, axes),
        _log(kernel),
        _log(stride),
        _log(group),
        float(group > 1 and len(made) > 1 and group == made[1]),
        _log(len(inputs) - len(constants)),
        _log(sum(len(value.uses()) for value in node.outputs)),
        depth,
        float(dtype == ir.DataType.FLOAT),
        float(dtype in eight_bits),
        float(dtype == ir.DataType.FLOAT16),
        float(any(value.is_graph_input() for value in inputs)),
        float(any(value.is_graph_output() for value in node.outputs)),
        float(_in_integers(node)),
        float(any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values())),
        len(constants) / max(len(inputs), 1),
    )


def _attribute(node: ir.Node, name: str) -> float:
    """An integer attribute; the product of one with several integers; 0 where it is absent."""
    held = node.attributes.get(name)
    if held is None or held.is_ref():
        return 0.0
    value: Any = held.value
    return float(value if isinstance(value, int) else math.prod(value))


def _in_integers(node: ir.Node) -> bool:
    """Whether a layer reads dequantized values, or is an integer operator itself."""
    if node.op_type.startswith("QLinear") or node.op_type in {
        "ConvInteger",
        "MatMulInteger",
        "QGemm",
    }:
        return True
    producers = [p for v in node.inputs[:1] if v is not None and (p := v.producer()) is not None]
    return node.op_type in _LAYERS and any(p.op_type == "DequantizeLinear" for p in producers)


def _edges(rows: Mapping[ir.Node, int]) -> list[tuple[int, int]]:
    return [
        (rows[producer], index)
        for node, index in rows.items()
        for value in dict.fromkeys(node.inputs)
        if value is not None and (producer := value.producer()) in rows and producer is not None
    ]


def _totals(table: npt.NDArray[np.float32]) -> list[float]:
    """Sums of macs, params and made bytes over all nodes, from their logarithms."""
    return [float(np.sum(np.exp2(table[:, column].astype(np.float64)) - 1)) for column in range(3)]


def _action_tables(
    graph: ir.Model,
    actions: Sequence[Action],
    rows: Mapping[ir.Node, int],
    node_x: npt.NDArray[np.float32],
    limits: Limits,
) -> dict[str, Array]:
    kinds = np.zeros(limits.actions, np.int32)
    anchors = np.zeros((limits.actions, 4), np.int32)
    columns = np.zeros((limits.actions, len(ACTION_COLUMNS)), np.float32)
    producers = {value.name: node for node in rows for value in node.outputs}
    consumers = {
        value.name: [user for user, _ in value.uses() if user in rows]
        for value in (*graph.graph.inputs, *(v for node in rows for v in node.outputs))
    }
    for row, action in enumerate(actions[: limits.actions]):
        near = [producers[action.site]] if action.site in producers else []
        near += consumers.get(action.site, [])
        places = [rows[node] for node in dict.fromkeys(near)][:4]
        kinds[row] = transform_code(action.transform)
        anchors[row, : len(places)] = [place + 1 for place in places]
        columns[row] = _action_row(action, places, node_x, len(rows))
    return {"action_type": kinds, "action_nodes": anchors, "action_x": columns}


def _action_row(
    action: Action, places: Sequence[int], node_x: npt.NDArray[np.float32], shown: int
) -> tuple[float, ...]:
    values = [value for _, value in action.parameters]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    bits = [8.0 for v in values if isinstance(v, str) and v.endswith("int8")]
    around = node_x[list(places), :3] if places else np.zeros((1, 3), np.float32)
    return (
        float(len(places)),
        *(float(value) for value in around.max(axis=0)),
        math.copysign(_log(abs(numbers[0])), numbers[0]) if numbers else 0.0,
        min(bits, default=0.0),
        places[0] / max(shown, 1) if places else 0.0,
        float(action.site == "*"),
    )
