"""Constants made plain: Constant nodes to initializers, small pure expressions to their value.

What is computed once for all is computed now, by the runtime itself without optimizations. Three
things stay as they are, since folding them would undo a compression: DequantizeLinear and
QuantizeLinear, a Cast of a large constant to a wider type (weights stored in 8 or 16 bits, and
whatever follows it), and expressions whose value is much larger than what they are made from.
"""

from collections.abc import Collection, Iterator

import onnx_ir as ir
from onnx import helper
from onnx_ir.passes import common

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Array
from edgeopt.graph.runtime import RuntimeFailure, Session

GROWTH_BYTES = 4096
"""A folded value may be this much larger than the constants that nobody else needs any more."""

_WIDENING_BYTES = 1024
_NEVER = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Constant",
    }
)


def lift_constants(graph: ir.Model) -> None:
    """Turn Constant nodes into initializers of their own graph, in place; sparse ones stay."""
    for node in list(graph.graph.all_nodes()):
        output = node.outputs[0]
        if node.op_type != "Constant" or node.domain or output.is_graph_output():
            continue
        held = node.attributes.get("value")
        # get_const_tensor would name a tensor that other copies of the graph hold as well.
        tensor = held.as_tensor() if held else ir.convenience.get_const_tensor(output)
        if tensor is not None:
            replace_by_constant(node, output, tensor)


def replace_by_constant(node: ir.Node, output: ir.Value, tensor: ir.TensorProtocol) -> None:
    """Put an initializer of the same name in the place of a node's only output, in place."""
    owner, name = node.graph, output.name
    if owner is None or name is None:
        raise ValueError(f"{node.name!r} is in no graph, or its output has no name")
    # Copies of a graph share their tensors: naming the one of a Constant would change them all.
    own = _renamed(tensor, name)
    value = ir.Value(
        name=name,
        type=ir.TensorType(own.dtype),
        shape=ir.Shape(own.shape.numpy()),
        const_value=own,
    )
    for user, index in tuple(output.uses()):
        user.replace_input_with(index, value)
    owner.remove(node, safe=True)
    owner.register_initializer(value)


def _renamed(tensor: ir.TensorProtocol, name: str) -> ir.TensorProtocol:
    if tensor.dtype == ir.DataType.STRING:
        return ir.StringTensor(tensor.numpy(), name=name)
    return ir.tensor(tensor.numpy(), dtype=tensor.dtype, name=name)


def drop_identities(graph: ir.Model) -> None:
    """Take Identity nodes out, in place, where no graph output loses its producer.

    An Identity before a graph output goes when its input can take the output's name: made by a
    node of the same graph, and no output itself.
    """
    for node in list(graph.graph.all_nodes()):
        if node.op_type != "Identity" or node.domain or node.inputs[0] is None:
            continue
        source, output, owner = node.inputs[0], node.outputs[0], node.graph
        producer = source.producer()
        if output.is_graph_output():
            if producer is None or producer.graph is not owner or source.is_graph_output():
                continue
            for index, value in enumerate(owner.outputs if owner is not None else ()):
                if value is output and owner is not None:
                    owner.outputs[index] = source
            name, output.name = output.name, f"{output.name}__dropped"
            source.name = name
            source.type, source.shape = output.type or source.type, output.shape or source.shape
        for user, index in tuple(output.uses()):
            user.replace_input_with(index, source)
        if owner is not None:
            owner.remove(node, safe=True)


def drop_unused(graph: ir.Model) -> None:
    """Take nodes and constants out, in place, that nothing reads; those of bodies included."""
    common.RemoveUnusedNodesPass()(graph)
    for part in graph.graph.subgraphs():
        for name, value in list(part.initializers.items()):
            if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
                part.initializers.pop(name)


def fold_constants(graph: ir.Model) -> int:
    """Replace pure expressions of constants by their value, in place; returns how many nodes.

    Subgraphs included. Where the runtime cannot compute them, nothing is folded.
    """
    found = dict.fromkeys(_foldable(graph))
    if not found:
        return 0
    try:
        arrays = _evaluate(graph, list(found))
    except RuntimeFailure:
        return 0
    folded = 0
    for node in found:
        output = node.outputs[0]
        array = arrays.get(output.name or "")
        if array is not None and array.nbytes <= _freed(node, found) + GROWTH_BYTES:
            replace_by_constant(node, output, ir.tensor(array))
            folded += 1
    return folded


def _freed(node: ir.Node, found: Collection[ir.Node]) -> int:
    """Bytes of the constants that only this node and foldable ones before it read.

    Gates of an LSTM that are cut from one weight and joined in another order free that weight.
    """
    cone: dict[ir.Node, None] = {}
    waiting = [node]
    read: dict[ir.Value, None] = {}
    while waiting:
        one = waiting.pop()
        cone[one] = None
        for value in one.inputs:
            made = None if value is None else value.producer()
            if made is not None and made in found and made not in cone:
                waiting.append(made)
            elif value is not None and value.const_value is not None:
                read[value] = None
    inner = (v for v in read if all(user in cone for user, _ in v.uses()))
    return sum(v.const_value.nbytes for v in inner if v.const_value is not None)


def _foldable(graph: ir.Model) -> Iterator[ir.Node]:
    known: set[ir.Value] = {
        value
        for part in (graph.graph, *graph.graph.subgraphs())
        for value in part.initializers.values()
        if not value.is_graph_input()
    }
    for node in graph.graph.all_nodes():
        output = node.outputs[0]
        if node.domain or node.op_type in _NEVER or len(node.outputs) != 1 or not node.inputs:
            continue
        if output.is_graph_output() or _holds_graph(node):
            continue
        if all(value is None or value in known for value in node.inputs) and not _widens(node):
            known.add(output)
            yield node


def _holds_graph(node: ir.Node) -> bool:
    kinds = {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}
    return any(attribute.type in kinds for attribute in node.attributes.values())


def _widens(node: ir.Node) -> bool:
    """Whether this Cast is the first step of a decompression of weights."""
    source = node.inputs[0]
    if node.op_type != "Cast" or source is None or source.const_value is None:
        return False
    target = ir.DataType(node.attributes["to"].as_int())
    tensor = source.const_value
    return tensor.nbytes > _WIDENING_BYTES and target.itemsize > tensor.dtype.itemsize


def _evaluate(graph: ir.Model, nodes: list[ir.Node]) -> dict[str, Array]:
    """Arrays of all these nodes' outputs by name, computed as one model."""
    made = {node.outputs[0] for node in nodes}
    needed = {v for node in nodes for v in node.inputs if v is not None and v not in made}
    tensors = [ir.to_proto(v.const_value) for v in needed if v.const_value is not None]
    for value, tensor in zip(
        (v for v in needed if v.const_value is not None), tensors, strict=True
    ):
        tensor.name = value.name or ""
    outputs = [helper.make_empty_tensor_value_info(node.outputs[0].name or "") for node in nodes]
    protos = [ir.to_proto(node) for node in nodes]
    body = helper.make_graph(protos, "constants", [], outputs, tensors)
    opset = helper.make_opsetid("", graph.opset_imports[""])
    model = helper.make_model(body, opset_imports=[opset], ir_version=max(graph.ir_version, 8))
    session = Session(model.SerializeToString(), RuntimeSettings(optimization="off"))
    # A sequence or an optional has no array.
    return {name: value for name, value in session.run({}).items() if hasattr(value, "nbytes")}
