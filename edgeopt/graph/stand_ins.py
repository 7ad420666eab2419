"""Standard operators in the place of the runtime's own, for tools that know only the standard.

A model that ONNX Runtime has optimized and saved holds operators of `com.microsoft`; to shape
inference they, and everything behind them, are unknown. What stands in for one here has the same
shapes and types; what it computes is another matter (`transforms.rewrite.unfuse_*` are about that).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
from onnx import defs, helper

from edgeopt.graph import files

DOMAIN = "com.microsoft"
NORMS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})
"""Operators that the runtime writes into the standard domain where the standard lacks them."""
_EINSUM_FROM, _COUNTED_FROM = 12, 18
_QUERY, _VALUE = 0, 2
_SKIP_OUTPUT = 3

StandIn = Callable[[onnx.NodeProto, int], list[onnx.NodeProto]]


def stand_in(model: onnx.ModelProto) -> None:
    """Replace operators of `com.microsoft` by what has their shapes, in place, in bodies too.

    Those without an entry here stay.
    """
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    for graph in _graphs(model.graph):
        if any(_is_foreign(node, version) for node in graph.node):
            nodes = [made for node in graph.node for made in standing_in(node, version)]
            del graph.node[:]
            graph.node.extend(nodes)


def standing_in(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """What has the shapes of a node; the node itself where nothing is known.

    Args:
        node: Of any domain.
        version: Of the default operator set.
    """
    known = _TABLE.get(node.op_type) if _is_foreign(node, version) else None
    return known(node, version) or [node] if known else [node]


def _is_foreign(node: onnx.NodeProto, version: int) -> bool:
    """Whether a node is the runtime's own: by its domain, or one that the standard lacks."""
    if node.domain or node.op_type not in NORMS:
        return node.domain == DOMAIN
    return not defs.has(node.op_type, version, "")


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for inner in files.subgraphs(graph.node):
        yield from _graphs(inner)


def _same(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """Every element on its own."""
    del version
    return [helper.make_node("Identity", node.input[:1], node.output[:1])]


def _skip(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """A normalized sum, and the sum."""
    made = _same(node, version)
    if len(node.output) > _SKIP_OUTPUT and node.output[_SKIP_OUTPUT]:
        made.append(helper.make_node("Identity", node.input[:1], [node.output[_SKIP_OUTPUT]]))
    return made


def _like(op_type: str, inputs: int, *kept: str) -> StandIn:
    """Another operator on the first inputs, with some of the attributes."""

    def made(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
        del version
        found = helper.make_node(op_type, node.input[:inputs], node.output[:1])
        found.attribute.extend(a for a in node.attribute if a.name in kept)
        return [found]

    return made


def _product(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    if flags.get("transBatchA") or flags.get("transBatchB"):
        return []
    if not flags.get("transA") and not flags.get("transB"):
        return [helper.make_node("MatMul", node.input[:2], node.output[:1])]
    if version < _EINSUM_FROM:
        return []
    one, other = "ki" if flags.get("transA") else "ik", "jk" if flags.get("transB") else "kj"
    return _sum(node, f"...{one},...{other}->...ij", node.input[:2])


def _sum(node: onnx.NodeProto, equation: str, inputs: list[str]) -> list[onnx.NodeProto]:
    return [helper.make_node("Einsum", inputs, node.output[:1], equation=equation)]


def _attention(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """Of separate queries, keys and values; one result a query, as wide as the values."""
    given = list(node.input)
    if version < _EINSUM_FROM or len(given) <= _VALUE or not given[_VALUE]:
        return []
    return _sum(node, "bsd,blv->bsv", [given[_QUERY], given[_VALUE]])


def _packed_attention(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """A third of a product as wide as queries, keys and values together."""
    if any(attribute.name == "qkv_hidden_sizes" for attribute in node.attribute):
        return []
    wide, (first, *_) = f"{node.output[0]}/wide", node.output
    parts = [first, f"{first}/keys", f"{first}/values"]
    count: dict[str, Any] = {"num_outputs": 3} if version >= _COUNTED_FROM else {}
    return [
        helper.make_node("MatMul", node.input[:2], [wide]),
        helper.make_node("Split", [wide], parts, axis=2, **count),
    ]


def _embedded(node: onnx.NodeProto, version: int) -> list[onnx.NodeProto]:
    """One row of the table of words for every number."""
    del version
    return [helper.make_node("Gather", [node.input[2], node.input[0]], node.output[:1])]


_WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_TABLE: Mapping[str, StandIn] = {
    **dict.fromkeys(("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "BiasSoftmax"), _same),
    **dict.fromkeys(NORMS, _same),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _product),
    "Attention": _packed_attention,
    "EmbedLayerNormalization": _embedded,
    "FusedConv": _like("Conv", 3, *_WINDOW),
    "FusedGemm": _like("Gemm", 3, "transA", "transB"),
    "MultiHeadAttention": _attention,
}
