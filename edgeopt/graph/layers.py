"""The layers of a built graph as a table: what it asks for, what it holds, what it computes."""

import contextlib
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from edgeopt.core.layers import BuiltLayer, family
from edgeopt.core.layers import weighted as is_weighted
from edgeopt.core.lowered import Precision
from edgeopt.errors import ModelError
from edgeopt.graph.cost import Shapes, macs_of
from edgeopt.graph.lowered import is_asked, is_dequantized, is_quantized
from edgeopt.graph.shapes import inferred, known_shapes

NO_LAYERS = frozenset(
    {"Constant", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Identity"}
)
"""What only holds or carries values: no row of its own."""
_INT4 = {"MatMulNBits", "MatMulBnb4"}
_TYPES: Mapping[ir.DataType, Precision] = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.INT8: "int8",
    ir.DataType.UINT8: "int8",
}


def layers_of(graph: ir.Model, shapes: Shapes | None = None) -> tuple[BuiltLayer, ...]:
    """One row a node in graph order, subgraphs included; Q/DQ and constants are no rows.

    Args:
        graph: Unchanged.
        shapes: Concrete shapes by value name; without them the recorded ones, free dimensions 1.
    """
    known = known_shapes(graph, shapes)
    nodes = [node for node in graph.graph.all_nodes() if node.op_type not in NO_LAYERS]
    places = {node: index for index, node in enumerate(nodes)}
    types = _types(graph, nodes)
    return tuple(_row(node, known, types, places) for node in nodes)


def _types(graph: ir.Model, nodes: Iterable[ir.Node]) -> Mapping[str, ir.DataType]:
    """Element types by value name; inferred where the file does not record one."""
    found: dict[str, ir.DataType] = {}
    for value in (v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None):
        if value.dtype is None:
            with contextlib.suppress(ModelError):  # a model that contradicts itself still runs
                infos = inferred(graph).items()
                return {n: ir.DataType(i.type.tensor_type.elem_type) for n, i in infos}
            return found
        found[value.name or ""] = value.dtype
    return found


def _row(
    node: ir.Node,
    known: Shapes,
    types: Mapping[str, ir.DataType],
    places: Mapping[ir.Node, int],
) -> BuiltLayer:
    domain = node.domain
    made = next((v.name for v in node.outputs if v.name), "") or ""
    operator = f"{domain}:{node.op_type}" if domain not in {"", "ai.onnx"} else node.op_type
    shape, weighted = known.get(made), is_weighted(node.op_type)
    return BuiltLayer(
        value=made,
        name=node.name or "",
        operator=operator,
        asked=_asked(node, types),
        shape=shape,
        width=_width(node.op_type, shape) if weighted else None,
        weight_bytes=sum(_stored(value) for value in dict.fromkeys(node.inputs)),
        macs=(macs_of(node, known) or None) if weighted else 0,
        source=_source(node, places),
    )


def _asked(node: ir.Node, types: Mapping[str, ir.DataType]) -> Precision:
    """The precision of the arithmetic that the graph asks for: its first operand's."""
    if node.op_type in _INT4:
        return "int4"
    given = [v for v in node.inputs if v is not None]
    computed = [v for v in given if _constant(v) is None]
    between_codes = bool(computed) and all(is_dequantized(value) for value in computed)
    if is_asked(node) or (between_codes and all(is_quantized(value) for value in node.outputs)):
        return "int8"
    found = (value.dtype or types.get(value.name or "") for value in (*given, *node.outputs))
    first = next((dtype for dtype in found if dtype), None)
    return "unknown" if first is None else _TYPES.get(first, "other")


def _width(operator: str, shape: tuple[int, ...] | None) -> int | None:
    """Channels stand second in what a convolution makes, features last elsewhere."""
    sizes = list(shape or ())
    if family(operator) in {"Conv", "ConvTranspose"}:
        sizes = sizes[:2]
    return sizes[-1] if sizes else None


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    return ir.convenience.get_const_tensor(value)


def _stored(value: ir.Value | None) -> int:
    """Bytes of a constant as it lies in the file: of dequantized codes the codes and scales."""
    if value is None:
        return 0
    tensor = _constant(value)
    if tensor is not None:
        return tensor.nbytes
    producer = value.producer()
    if producer is None or producer.op_type not in {"DequantizeLinear", "Identity"}:
        return 0
    first = producer.inputs[0]
    if first is None or _constant(first) is None:
        return 0
    return sum(_stored(each) for each in dict.fromkeys(producer.inputs))


def _source(node: ir.Node, places: Mapping[ir.Node, int]) -> int | None:
    """The row that makes the first computed input, behind whatever carries codes."""
    for value in node.inputs:
        producer = None if value is None else value.producer()
        while producer is not None and producer.op_type in NO_LAYERS and producer.inputs:
            first = producer.inputs[0]
            producer = None if first is None else first.producer()
        if producer is not None and producer in places:
            return places[producer]
    return None
