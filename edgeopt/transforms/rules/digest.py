"""`Labels`: a digest of a graph that is kept current while it is rewritten.

Every value has a label from what computes it. The digest is that of the labels of all nodes,
sorted, and of the outputs: names of inner values and nodes and the order of nodes do not matter.
Equal digests mean the same computation on the same weights; different ones may (weights that
rules computed are known by how they were computed, until somebody asks for their values).
"""

from collections.abc import Iterable

import onnx_ir as ir

from edgeopt.core import digest as digests
from edgeopt.transforms.rules.facts import attributes_of, default_of, is_constant, is_plain
from edgeopt.transforms.rules.weights import label_of, text_hash

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


class Labels:
    """Labels of the values of a model.

    Args:
        model: May be changed, if `forget` is told.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known: dict[ir.Value, str] = {}
        self._stale: dict[ir.Value, None] = {}
        self._depth = 0

    def digest(self) -> str:
        """`sha256:...` of the graph as it is now."""
        self._drop_stale()
        graph = self._model.graph
        opsets = sorted(graph.opset_imports.items())
        inputs = [f"{v.name} {v.dtype} {v.shape}" for v in graph.inputs]
        outputs = [f"{v.name} {self.label(v)}" for v in graph.outputs]
        nodes = sorted(self.label(node.outputs[0]) for node in graph if node.outputs)
        return digests.of_text("\n".join([str(opsets), *inputs, *outputs, *nodes]))

    def forget(self, touched: Iterable[ir.Value]) -> None:
        """Drop what is known about these values and what is computed from them, when it matters."""
        self._stale |= dict.fromkeys(touched)

    def _drop_stale(self) -> None:
        waiting = list(self._stale)
        self._stale = {}
        seen: set[ir.Value] = set(waiting)
        while waiting:
            value = waiting.pop()
            self._known.pop(value, None)
            for user, _ in value.uses():
                for output in self._results(user):
                    if output not in seen:
                        seen.add(output)
                        waiting.append(output)

    def label(self, value: ir.Value) -> str:
        """What a value is."""
        waiting = [value]
        while waiting:
            each = waiting[-1]
            node = each.producer()
            needed = [] if node is None else [*node.inputs, *_captured(node)]
            missing = [v for v in needed if v is not None and v not in self._known]
            if each in self._known or not missing:
                waiting.pop()
                if each not in self._known:
                    self._known[each] = self._of(each)
            else:
                waiting += missing
        return self._known[value]

    def _of(self, value: ir.Value) -> str:
        node = value.producer()
        if is_constant(value):
            return _weight(value)
        if node is None:
            return text_hash("input", value.name or "")
        inputs = ["-" if v is None else self._known[v] for v in node.inputs]
        head = (node.domain, node.op_type, node.overload, *self._attributes(node), *inputs)
        return text_hash(*head, str(node.outputs.index(value)))

    def _attributes(self, node: ir.Node) -> list[str]:
        graph = node.graph
        version = graph.opset_imports.get(node.domain, 1) if isinstance(graph, ir.Graph) else 1
        parts = [
            f"{name}={value}"
            for name, value in sorted(attributes_of(node).items())
            if value != default_of(node.op_type, node.domain, version, name)
        ]
        if is_plain(node):
            return parts
        for name, attribute in sorted(node.attributes.items()):
            if attribute.type not in _GRAPHS and name not in attributes_of(node):
                parts.append(f"{name}={_written(attribute)}")
        return parts + [self._body(graph) for graph in _bodies(node)]

    def _body(self, graph: ir.Graph) -> str:
        """What a body computes; its inputs are known by their position and depth."""
        self._depth += 1
        for index, value in enumerate(graph.inputs):
            self._known[value] = text_hash("body input", str(index), str(self._depth))
        outputs = [self.label(value) for value in graph.outputs]
        nodes = sorted(self.label(node.outputs[0]) for node in graph if node.outputs)
        self._depth -= 1
        return text_hash("body", *outputs, *nodes)

    def _results(self, node: ir.Node) -> list[ir.Value]:
        """Outputs of a node, or of the nodes around it whose bodies it lies in."""
        found = list(node.outputs)
        graph = node.graph
        if isinstance(graph, ir.Graph) and graph is not self._model.graph:
            found += [v for outer in self._model.graph if _bodies(outer) for v in outer.outputs]
        return found


def _weight(value: ir.Value) -> str:
    tensor = ir.convenience.get_const_tensor(value)
    return text_hash("constant", value.name or "") if tensor is None else label_of(tensor)


def _bodies(node: ir.Node) -> tuple[ir.Graph, ...]:
    """The bodies of a node, in order."""
    found: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            found.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
            found += attribute.as_graphs()
    return tuple(found)


def _captured(node: ir.Node) -> tuple[ir.Value, ...]:
    """Values of the graphs around that the bodies of a node read."""
    found: dict[ir.Value, None] = {}
    for graph in _bodies(node):
        inner = [graph, *graph.subgraphs()]
        own = {v for g in inner for v in (*g.inputs, *g.initializers.values())}
        own |= {v for g in inner for each in g for v in each.outputs}
        for part in inner:
            read = [*part.outputs, *(v for each in part for v in each.inputs)]
            found |= {v: None for v in read if v is not None and v not in own}
    return tuple(found)


def _written(attribute: ir.Attr) -> str:
    """An attribute that is a tensor, a type or a reference, as it is written."""
    return text_hash(ir.to_proto(attribute).SerializeToString(deterministic=True).hex())
