"""An If whose condition is known becomes the branch that it takes.

A condition is known where it is computed from constants, or from the rank or the fixed dimensions
of values: exporters write an If for every `squeeze` of a traced model, and decide by a dimension
that the inputs fix. Shapes come from inference alone; what the file records about intermediate
values may be stale and does not count.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.errors import ModelError
from edgeopt.graph.editor import array_of
from edgeopt.graph.folding import drop_identities, drop_unused, fold_constants, replace_by_constant
from edgeopt.graph.shapes import inferred

Dimensions = Mapping[str, tuple[int | None, ...]]


def settle_branches(graph: ir.Model) -> int:
    """Put the branches that are always taken in the place of their Ifs, in place.

    Args:
        graph: Value names are unique, those of bodies included.

    Returns:
        How many Ifs are gone.
    """
    count = 0
    while any(node.op_type == "If" for node in graph.graph.all_nodes()):
        _fold_dimensions(graph)
        while fold_constants(graph):
            pass
        known = next(settled(graph), None)
        if known is None:
            break
        while known is not None:
            take(*known)
            count += 1
            known = next(settled(graph), None)
        drop_identities(graph)
        drop_unused(graph)
    return count


def settled(graph: ir.Model) -> Iterator[tuple[ir.Node, ir.Graph, ir.Graph]]:
    """Ifs with a constant condition: the branch taken, and the other."""
    for node in graph.graph.all_nodes():
        if node.op_type != "If" or node.domain or node.inputs[0] is None:
            continue
        condition = None if node.inputs[0].is_graph_input() else array_of(node.inputs[0])
        if condition is not None and condition.size == 1:
            branches = [node.attributes[f"{name}_branch"].as_graph() for name in ("then", "else")]
            taken, other = branches if condition.item() else reversed(branches)
            yield node, taken, other


def take(node: ir.Node, taken: ir.Graph, other: ir.Graph) -> None:
    """Move the nodes of a branch before the If, and let them make its outputs."""
    around = node.graph
    assert isinstance(around, ir.Graph), "it was found in a graph"
    results = list(taken.outputs)
    taken.outputs.clear()
    for name in list(taken.initializers):
        around.register_initializer(taken.initializers.pop(name))
    moved = list(taken)
    taken.remove(moved)
    around.insert_before(node, moved)
    for output, result in zip(node.outputs, results, strict=True):
        hand_over(node, output, result, own=result.producer() in moved)
    around.remove(node, safe=True)
    forget(other)


def hand_over(node: ir.Node, output: ir.Value, result: ir.Value, *, own: bool) -> None:
    """Let `result` be read for an output of a node; a graph output keeps its name and type.

    Args:
        node: In its graph; what is needed besides comes before it.
        output: Of the node.
        result: What takes its place.
        own: Whether the graph of the node makes the result, for nobody else yet.
    """
    around = node.graph
    assert isinstance(around, ir.Graph), "the caller knows it"
    if output.is_graph_output():
        if not own or result.is_graph_output():
            name = f"{node.name}__{output.name}"
            copy = ir.node("Identity", [result], name=f"{name}/Identity")
            around.insert_before(node, copy)
            result = copy.outputs[0]
        for index, value in enumerate(around.outputs):
            if value is output:
                around.outputs[index] = result
        name, output.name = output.name, f"{output.name}__settled"
        result.name = name
        result.type, result.shape = output.type or result.type, output.shape or result.shape
    for user, index in tuple(output.uses()):
        user.replace_input_with(index, result)


def forget(branch: ir.Graph) -> None:
    """Let a body that is gone no longer count as a reader of values around it."""
    branch.outputs.clear()
    for node in list(ir.traversal.RecursiveGraphIterator(branch)):
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)


def _fold_dimensions(graph: ir.Model) -> None:
    """Replace what asks for a rank or a fixed dimension by the number."""
    try:
        found = inferred(graph)
    except ModelError:
        return
    shapes = {name: _dimensions(info) for name, info in found.items() if _has_shape(info)}
    for node in list(graph.graph.all_nodes()):
        if len(node.outputs) != 1 or node.domain or node.outputs[0].is_graph_output():
            continue
        number = _known(node, shapes)
        if number is not None:
            replace_by_constant(node, node.outputs[0], ir.tensor(number))


def _known(node: ir.Node, shapes: Dimensions) -> npt.NDArray[np.int64] | None:
    """The value of a Shape, a Size, or of some elements of a Shape, where they are fixed."""
    if node.op_type == "Shape":
        return _all_of(_asked(node, shapes))
    if node.op_type == "Size" and node.inputs[0] is not None:
        sizes = _all_of(shapes.get(node.inputs[0].name or ""))
        return None if sizes is None else np.asarray(sizes.prod(), np.int64)
    if node.op_type != "Gather" or node.inputs[0] is None:
        return None
    before, index = node.inputs[0].producer(), array_of(node.inputs[1])
    if before is None or before.op_type != "Shape" or before.domain or index is None:
        return None
    sizes = _asked(before, shapes)
    if sizes is None or np.any(index >= len(sizes)) or np.any(index < -len(sizes)):
        return None
    picked = [sizes[int(i)] for i in index.reshape(-1)]
    whole = _all_of(picked)
    return None if whole is None else whole.reshape(index.shape)


def _asked(node: ir.Node, shapes: Dimensions) -> tuple[int | None, ...] | None:
    """The dimensions that a Shape is about."""
    source = node.inputs[0]
    sizes = None if source is None else shapes.get(source.name or "")
    if sizes is None:
        return None
    start, end = (node.attributes.get_int(key, None) for key in ("start", "end"))
    return sizes[start:end]


def _all_of(
    sizes: tuple[int | None, ...] | list[int | None] | None,
) -> npt.NDArray[np.int64] | None:
    if sizes is None or any(size is None for size in sizes):
        return None
    return np.array(sizes, np.int64)


def _has_shape(info: onnx.ValueInfoProto) -> bool:
    return info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape")


def _dimensions(info: onnx.ValueInfoProto) -> tuple[int | None, ...]:
    dims = info.type.tensor_type.shape.dim
    return tuple(
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims
    )
