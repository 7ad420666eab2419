"""What a graph is, whatever its nodes and values are called: canonical digests.

Every value gets a label from what computes it (bottom up), then from who uses it (top down), then
once more from both; the digest is that of all labels, sorted. The second direction is what tells
one shared value from two equal copies of it. Names of nodes and values and the order of nodes do
not matter; names and order of the graph's inputs and outputs do. Attributes that say the default
are dropped. Weights count by dtype and shape only, so that a retrained model keeps its digest;
integers of up to 64 elements in int64 or bool (shapes, axes, pads) are structure and count by
value.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir
from onnx import defs

from edgeopt.core import digest as digests

Labels = dict[ir.Value, str]
_STRUCTURAL = (ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.STRING)
_STRUCTURAL_SIZE = 64
_WINDOWED = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "QLinearConv"}
_IMPLIED = {"strides": {1}, "dilations": {1}, "pads": {0}, "output_padding": {0}}


def structure_digest(graph: ir.Model) -> str:
    """Identity of a graph without its names and weights: `sha256:...`."""
    labels = _Labelling(graph)
    opsets = sorted((d, v) for d, v in graph.opset_imports.items() if d in labels.domains)
    head = [f"opset {domain} {version}" for domain, version in opsets]
    ends = [f"in {v.name} {_type(v)}" for v in graph.graph.inputs if not v.is_initializer()]
    ends += [f"out {v.name} {labels.final[v]}" for v in graph.graph.outputs]
    return digests.of_text("\n".join([*head, *ends, *sorted(labels.final.values())]))


def weights_digest(graph: ir.Model) -> str:
    """Digest of all constants by value, in an order that depends on structure alone."""
    labels = _Labelling(graph)
    found = [
        f"{label} {digests.of_array(tensor.numpy())}"
        for value, label in labels.final.items()
        if (tensor := _constant(value)) is not None
    ]
    return digests.of_text("\n".join(sorted(found)))


class _Labelling:
    """Labels of every value of a graph and its subgraphs."""

    def __init__(self, model: ir.Model) -> None:
        self._opsets = dict(model.opset_imports)
        self.domains = {node.domain for node in _all_nodes(model.graph)}
        leaves = {v: _leaf(v) for v in _leaves(model.graph)}
        up = self._upward(model.graph, leaves)
        both = self._with_users(model.graph, up)
        self.final = self._with_users(model.graph, self._upward(model.graph, both))

    def _upward(self, graph: ir.Graph, known: Labels) -> Labels:
        """A label from the operator and its inputs' labels, mixed with what is known already."""
        labels = {v: label for v, label in known.items() if v.producer() is None}
        labels |= {v: label for v, label in known.items() if _is_constant_node(v.producer())}
        for node in graph:
            self._label_node(node, labels, known)
        return labels

    def _label_node(self, node: ir.Node, labels: Labels, known: Labels) -> None:
        inputs = ["-" if v is None else labels[v] for v in node.inputs]
        attributes = self._attributes(node, labels, known)
        head = f"{node.domain}:{node.op_type}:{node.overload} {attributes} {inputs}"
        for index, output in enumerate(node.outputs):
            if output not in labels:
                labels[output] = _hash(head, str(index), known.get(output, ""))

    def _attributes(self, node: ir.Node, labels: Labels, known: Labels) -> list[str]:
        parts: list[str] = []
        for name, attribute in sorted(node.attributes.items()):
            if attribute.is_ref():
                parts.append(f"{name}=@{attribute.ref_attr_name}")
            elif attribute.type == ir.AttributeType.GRAPH:
                parts.append(f"{name}={self._subgraph(attribute.as_graph(), labels, known)}")
            elif attribute.type == ir.AttributeType.GRAPHS:
                inner = [self._subgraph(g, labels, known) for g in attribute.as_graphs()]
                parts.append(f"{name}={inner}")
            elif not self._is_default(node, name, attribute):
                parts.append(f"{name}={_plain(attribute)}")
        return parts

    def _subgraph(self, graph: ir.Graph, labels: Labels, known: Labels) -> str:
        for index, value in enumerate(graph.inputs):
            labels[value] = _hash("subgraph input", str(index), known.get(value, ""))
        labels |= {v: known[v] for v in graph.initializers.values()}
        for node in graph:
            self._label_node(node, labels, known)
        ends = [labels[v] for v in graph.outputs]
        inside = sorted(labels[v] for node in graph for v in node.outputs)
        return _hash(str(ends), str(inside))

    def _with_users(self, graph: ir.Graph, labels: Labels) -> Labels:
        """Each label mixed with those of the users' results, from the last node to the first."""
        mixed: Labels = {}
        for value in reversed(_ordered(graph)):
            users = sorted(
                f"{index} {'+'.join(mixed.get(o, labels[o]) for o in user.outputs)}"
                for user, index in value.uses()
            )
            mixed[value] = _hash(labels[value], str(users), str(value.is_graph_output()))
        return mixed

    def _is_default(self, node: ir.Node, name: str, attribute: ir.Attr) -> bool:
        value = attribute.value
        if node.op_type in _WINDOWED and name in _IMPLIED:
            return set(value) <= _IMPLIED[name]
        if name == "kernel_shape" and node.op_type in {"Conv", "ConvTranspose"}:
            weight = node.inputs[1]
            shape = None if weight is None or weight.shape is None else weight.shape.dims[2:]
            return shape is not None and tuple(value) == tuple(shape)
        version = self._opsets.get(node.domain, 1)
        defaults = _defaults(node.op_type, node.domain, version)
        return name in defaults and defaults[name] == _plain(attribute)


@cache
def _defaults(operator: str, domain: str, version: int) -> Mapping[str, str]:
    if not defs.has(operator, version, domain):
        return {}
    schema = defs.get_schema(operator, version, domain)
    return {
        name: _plain(ir.from_proto(attribute.default_value))
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
    }


def _plain(attribute: Any) -> str:
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return digests.of_array(value.numpy())
    if attribute.type in (ir.AttributeType.FLOATS, ir.AttributeType.INTS):
        return repr([_number(item) for item in value])
    return repr(_number(value)) if isinstance(value, int | float) else repr(value)


def _number(value: float) -> str:
    # Attributes are float32 in the file: 1e-5 set in Python and 1e-5 read back must be equal.
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    if value.is_initializer() and not value.is_graph_input():
        return value.const_value
    producer = value.producer()
    if producer is not None and _is_constant_node(producer):
        return ir.convenience.get_const_tensor(value)
    return None


def _is_constant_node(node: ir.Node | None) -> bool:
    return node is not None and node.op_type == "Constant" and node.domain == ""


def _leaves(graph: ir.Graph) -> Iterator[ir.Value]:
    for part in (graph, *graph.subgraphs()):
        yield from part.inputs
        yield from (v for v in part.initializers.values() if not v.is_graph_input())
        for node in part:
            if _is_constant_node(node):
                yield from node.outputs


def _leaf(value: ir.Value) -> str:
    tensor = _constant(value)
    if tensor is None:
        return _hash("input", value.name or "")
    shape = tuple(tensor.shape.numpy())
    if tensor.dtype in _STRUCTURAL and tensor.size <= _STRUCTURAL_SIZE:
        return _hash("constant", digests.of_array(tensor.numpy()))
    return _hash("weight", str(tensor.dtype), str(shape))


def _ordered(graph: ir.Graph) -> list[ir.Value]:
    """All values, every user after what it uses; a node's subgraphs stand before its outputs."""
    found = [*graph.inputs, *(v for v in graph.initializers.values() if not v.is_graph_input())]
    for node in graph:
        for inner in _graphs_of(node):
            found += _ordered(inner)
        found += node.outputs
    return found


def _graphs_of(node: ir.Node) -> Iterable[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    for node in graph:
        yield node
        for inner in _graphs_of(node):
            yield from _all_nodes(inner)


def _type(value: ir.Value) -> str:
    dims = None if value.shape is None else [d if isinstance(d, int) else "?" for d in value.shape]
    return f"{value.dtype} {dims}"


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
