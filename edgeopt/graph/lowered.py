"""What the runtime made of a built graph: asked against ran, and the float islands in between.

Only *weighted* operators count (convolutions, matrix products, recurrences), so that `asked` and
`ran` speak of the same kinds. Element-wise and pooling operators follow their neighbours.

- **asked**: weighted nodes of the built graph that are integer operators themselves, or that
  stand completely between Dequantize and Quantize: activation and weight come from a
  DequantizeLinear of 8-bit integers, and for a convolution every use of the output (behind a Relu
  or Clip, which the runtime folds in) is a QuantizeLinear. A matrix product may end in float:
  the runtime has integer kernels for that.
- **ran**: weighted nodes that the runtime executed in integer arithmetic.
- **islands**: executed QuantizeLinear nodes whose float operand was computed from dequantized
  activations: dequantize, compute in float, quantize again.

A runtime that splits or merges weighted nodes can make `ran` differ from `asked` for a good
reason; for the CPU provider it does neither. A provider that compiles subgraphs hides its layers:
then `ran` is None and the note says so.
"""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from edgeopt.core.lowered import Layer, Lowered, Precision
from edgeopt.graph.placement_reasons import island_text, stayed_float, traps

_FLOAT_KINDS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"}
_INTEGER_KINDS = {
    "ConvInteger",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulInteger16",
    "MatMulIntegerToFloat",
    "QAttention",
    "QGemm",
    "QLinearConv",
    "QLinearConvTranspose",
    "QLinearMatMul",
}
_INT4_KINDS = {"MatMulNBits", "MatMulBnb4"}
_FOLDED = {"Relu", "Clip"}
_EIGHT_BITS = {ir.DataType.INT8, ir.DataType.UINT8}
_BORDERS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast"}
_OPEN_PROVIDERS = {"CPUExecutionProvider", "CUDAExecutionProvider", "XnnpackExecutionProvider", ""}


def lowered(profile: Mapping[str, Any], graph: ir.Model) -> Lowered:
    """Read a device's profile beside the graph that was built.

    Args:
        profile: `{"nodes": [{"name", "op", "domain", "provider", "time_s", "inputs", "outputs"}]}`
            of the executed graph; inputs and outputs are element types as the runtime names them.
        graph: The built model.
    """
    nodes: list[Mapping[str, Any]] = list(profile.get("nodes", ()))
    layers = tuple(_layer(node) for node in nodes)
    hidden = sorted({layer.provider for layer in layers} - _OPEN_PROVIDERS)
    wanted = sum(is_asked(node) for node in graph.graph.all_nodes())
    if hidden or not layers:
        reason = f"{', '.join(hidden)} hides its layers" if hidden else "nothing was profiled"
        return Lowered(layers=layers, asked=wanted, ran=None, note=reason)
    kinds = frozenset(_FLOAT_KINDS)
    islands = _islands(nodes, graph)
    return Lowered(
        layers=layers,
        asked=wanted,
        ran=sum(node["op"] in _INTEGER_KINDS | _INT4_KINDS for node in nodes),
        islands=len(islands),
        stayed=tuple(
            stayed_float(nodes, graph, weighted=kinds, asked=is_asked, dequantized=is_dequantized)
        ),
        traps=tuple(traps(nodes, graph, weighted=kinds, asked=is_asked)),
        between=tuple(map(island_text, islands)),
    )


def _layer(node: Mapping[str, Any]) -> Layer:
    domain = node.get("domain") or ""
    time_s = node.get("time_s")
    return Layer(
        name=str(node["name"]),
        operator=f"{domain}:{node['op']}" if domain not in {"", "ai.onnx"} else str(node["op"]),
        precision=_precision(node),
        provider=str(node.get("provider") or ""),
        time_s=None if time_s is None else float(time_s),
    )


def _precision(node: Mapping[str, Any]) -> Precision:
    if node["op"] in _INTEGER_KINDS:
        return "int8"
    if node["op"] in _INT4_KINDS:
        return "int4"
    if node["op"] in _BORDERS:
        return "other"
    types = [str(name).removeprefix("tensor(").rstrip(")") for name in node.get("inputs") or ()]
    if not types:
        return "unknown"
    # The first operand decides: scales of integer operators are floats.
    kinds: dict[str, Precision] = {"float": "float32", "float32": "float32", "float16": "float16"}
    return "int8" if types[0] in {"int8", "uint8"} else kinds.get(types[0], "other")


def is_asked(node: ir.Node) -> bool:
    """Whether a weighted node is to run in integer arithmetic."""
    if node.op_type in _INTEGER_KINDS | _INT4_KINDS:
        return True
    if node.domain or node.op_type not in _FLOAT_KINDS or len(node.inputs) < 2:
        return False
    if not all(is_dequantized(value) for value in node.inputs[:2]):
        return False
    return node.op_type in {"Gemm", "MatMul"} or is_quantized(node.outputs[0])


def is_dequantized(value: ir.Value | None) -> bool:
    """Whether a value comes from 8-bit codes."""
    producer = None if value is None else value.producer()
    if producer is None or producer.op_type != "DequantizeLinear":
        return False
    source = producer.inputs[0]
    if source is None:
        return False
    if source.dtype is None:
        # Values without a recorded type: the zero point has the type of what is dequantized.
        zero = producer.inputs[2] if len(producer.inputs) > 2 else None
        return zero is None or zero.dtype in _EIGHT_BITS
    return source.dtype in _EIGHT_BITS


def is_quantized(value: ir.Value) -> bool:
    """Whether every use of a value, behind an activation that is folded in, is a Quantize."""
    if value.is_graph_output() or not value.uses():
        return False
    return all(
        user.op_type == "QuantizeLinear"
        or (user.op_type in _FOLDED and is_quantized(user.outputs[0]))
        for user, _ in value.uses()
    )


def _islands(nodes: list[Mapping[str, Any]], graph: ir.Model) -> list[list[ir.Node]]:
    """Of each island its operators, the last first."""
    executed = {node["name"] for node in nodes if node["op"] == "QuantizeLinear"}
    ends = (n for n in graph.graph.all_nodes() if n.op_type == "QuantizeLinear")
    found = (_island(node) for node in ends if node.name in executed)
    return [each for each in found if each]


def _island(node: ir.Node) -> list[ir.Node]:
    """What computes the operand of a quantizer from dequantized activations; empty for none."""
    waiting, seen, closed = [node.inputs[0]], dict[ir.Node, None](), False
    while waiting:
        value = waiting.pop()
        producer = None if value is None else value.producer()
        if value is None or producer is None or producer in seen:
            continue
        if producer.op_type != "DequantizeLinear":
            seen[producer] = None
            waiting += producer.inputs
        elif value is not node.inputs[0] and not _is_constant(producer.inputs[0]):
            closed = True
    return list(seen) if closed else []


def _is_constant(value: ir.Value | None) -> bool:
    return value is None or ir.convenience.get_const_tensor(value) is not None
