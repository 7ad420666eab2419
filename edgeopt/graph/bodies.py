"""Bodies of If, Loop and Scan: graphs inside a graph, which see the values of those around them.

A body can be looked at as a model of its own (`view`): what lists and edits the nodes of
`model.graph` then works on a body as it does on the main graph. Values from outside are seen as
they are, with their producers and constants.
"""

from collections.abc import Iterator, Mapping

import onnx_ir as ir


def parents(model: ir.Model) -> dict[ir.Graph, ir.Graph]:
    """Each body, outer ones first, and the graph that holds the node it belongs to."""
    found: dict[ir.Graph, ir.Graph] = {}
    waiting = [model.graph]
    while waiting:
        outer = waiting.pop(0)
        for body in bodies_of(outer):
            found[body] = outer
            waiting.append(body)
    return found


def bodies_of(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Bodies of the nodes of one graph, without those inside them."""
    for node in graph:
        if node.attributes:
            yield from bodies_in(node)


def bodies_in(node: ir.Node) -> Iterator[ir.Graph]:
    """Bodies of one node, without those inside them."""
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif attribute.type is ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def inner_nodes(node: ir.Node) -> Iterator[ir.Node]:
    """Nodes of the bodies of a node, those of bodies inside them included."""
    for body in bodies_in(node):
        yield from ir.traversal.RecursiveGraphIterator(body)


def captured(node: ir.Node) -> Iterator[ir.Value]:
    """Values of graphs around a node that its bodies read; one that is read twice comes twice."""
    inside = list(inner_nodes(node))
    graphs = {each.graph for each in inside}
    for each in inside:
        for value in each.inputs:
            if value is not None and owner(value) not in graphs:
                yield value


def view(model: ir.Model, body: ir.Graph) -> ir.Model:
    """A body as a model: the same graph, not a copy."""
    for domain, version in model.graph.opset_imports.items():
        body.opset_imports.setdefault(domain, version)
    return ir.Model(body, ir_version=model.ir_version)


def views(model: ir.Model) -> Iterator[ir.Model]:
    """The model itself, then each body, outer ones first."""
    yield model
    for body in parents(model):
        yield view(model, body)


def maker(model: ir.Model, name: str) -> ir.Graph | None:
    """The graph whose node makes the value of that name: the main graph first."""
    for graph in (model.graph, *parents(model)):
        if any(output.name == name for node in graph for output in node.outputs):
            return graph
    return None


def sees(graph: ir.Graph, other: ir.Graph, around: Mapping[ir.Graph, ir.Graph]) -> bool:
    """Whether a graph may read the values of another: it lies in it, or is it.

    Args:
        graph: Of a model.
        other: Of the same.
        around: The model's `parents`.
    """
    while graph is not other and graph in around:
        graph = around[graph]
    return graph is other


def out_of_sight(model: ir.Model) -> str | None:
    """The name of a value that is used where it must not be; None where all is well.

    A node reads values of its own graph and of those around it. A body's outputs are its own: the
    runtime refuses a value from outside as output.
    """
    around = parents(model)
    for graph in (model.graph, *around) if around else ():
        value = foreign(graph)
        for node in graph:
            value = value or unseen(node, graph, around)
        if value is not None:
            return value.name
    return None


def foreign(graph: ir.Graph) -> ir.Value | None:
    """An output of a graph that another graph makes."""
    return next((value for value in graph.outputs if owner(value) is not graph), None)


def unseen(node: ir.Node, graph: ir.Graph, around: Mapping[ir.Graph, ir.Graph]) -> ir.Value | None:
    """A value that a node of a graph reads and does not see.

    Args:
        node: Of `graph`.
        graph: Of a model.
        around: The model's `parents`.
    """
    for value in node.inputs:
        held = None if value is None else owner(value)
        if value is not None and (held is None or not sees(graph, held, around)):
            return value
    return None


def owner(value: ir.Value) -> ir.Graph | None:
    """The graph that a value belongs to; None for one that is in no graph any more."""
    made = value.producer()
    graph = value.graph if made is None else made.graph
    return graph if isinstance(graph, ir.Graph) else None
