"""A copy of a model in memory, for less than the library's own.

A search copies a graph for every recipe that says a little more than another one, and most of the
time of one more quantized group goes into that. Tensors and attributes are shared, as they are in
the library's copies, and shapes, which are frozen; graphs with bodies or functions are left to it.
"""

from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

_GRAPHS = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})


def cloned(model: ir.Model) -> ir.Model:
    """The same graph, of which everything but tensors, attributes and types is new.

    Raises:
        RuntimeError: A node reads what is made behind it: sort the graph first.
    """
    if model.functions or model.device_configurations:
        return model.clone()
    graph = model.graph
    values = {value: _value(value) for value in (*graph.inputs, *graph.initializers.values())}
    nodes = [_node(node, values) for node in graph]
    if None in nodes or any(output not in values for output in graph.outputs):
        return model.clone()
    made = ir.Graph(
        [values[value] for value in graph.inputs],
        [values[value] for value in graph.outputs],
        nodes=[node for node in nodes if node is not None],
        initializers=[values[value] for value in graph.initializers.values()],
        doc_string=graph.doc_string,
        opset_imports=dict(graph.opset_imports),
        name=graph.name,
        metadata_props=dict(graph.metadata_props),
    )
    _carry(graph, made)
    return ir.Model(
        made,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        metadata_props=dict(model.metadata_props),
    )


def _value(value: ir.Value) -> ir.Value:
    shape = value.shape
    if isinstance(shape, ir.Shape):
        # Shared from now on: whoever wants another one assigns it, as the editor does.
        shape.freeze()
    made = ir.Value(
        name=value.name,
        type=value.type,
        shape=shape,
        doc_string=value.doc_string,
        const_value=value.const_value,
    )
    _carry_props(value, made)
    _carry(value, made)
    return made


def _node(node: ir.Node, values: dict[ir.Value, ir.Value]) -> ir.Node | None:
    """None where the library has to copy the graph: bodies, or what is read before it is made."""
    attributes = tuple(node.attributes.values())
    if any(each.type in _GRAPHS for each in attributes) or node.device_configurations:
        return None
    inputs = [None if value is None else values.get(value) for value in node.inputs]
    if _is_unknown(node.inputs, inputs):
        return None
    outputs = [_value(value) for value in node.outputs]
    values.update(zip(node.outputs, outputs, strict=True))
    made = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        attributes,
        overload=node.overload,
        outputs=outputs,
        version=node.version,
        name=node.name,
        doc_string=node.doc_string,
    )
    _carry_props(node, made)
    _carry(node, made)
    return made


def _is_unknown(old: Iterable[ir.Value | None], new: Iterable[ir.Value | None]) -> bool:
    return any(b is None and a is not None for a, b in zip(old, new, strict=True))


def _carry_props(old: ir.Value | ir.Node, new: ir.Value | ir.Node) -> None:
    # The property makes an empty dictionary where there is none, for every value of the graph.
    if getattr(old, "_metadata_props", True):
        new.metadata_props.update(old.metadata_props)


def _carry(old: ir.Value | ir.Node | ir.Graph, new: ir.Value | ir.Node | ir.Graph) -> None:
    """What was noted in memory, shared; as above."""
    if not getattr(old, "_metadata", True):
        return
    held: Any = old.meta
    for key, each in held.items():
        new.meta[key] = each
    for key in getattr(held, "_invalid_keys", ()):
        new.meta.invalidate(key)
