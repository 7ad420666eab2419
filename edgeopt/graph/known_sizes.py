"""What only asks for sizes that are known, computed once for all.

Exporters write the arithmetic of sizes out even where every size is fixed: Shape, Gather, Add, Div
and Mul before the Slices of a chunk, Shape, Slice and Concat before a Resize. The runtime folds it
when it loads the model; done here, rules and quantizers see constants.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.graph.branches import settle_branches
from edgeopt.graph.editor import array_of
from edgeopt.graph.folding import drop_unused, fold_constants, replace_by_constant
from edgeopt.graph.read import sort
from edgeopt.graph.shapes import infer_shapes, inferred

_ROUNDS = 20
Sizes = tuple[int | None, ...]


def fold_known_sizes(graph: ir.Model) -> int:
    """Fold, in place, what asks for known sizes and what follows from it; returns how much.

    A Shape of a value whose sizes are known, and what Gather or Slice takes of known sizes; an If
    that they decide becomes the branch taken. Known is what follows from the inputs, never what
    is only recorded. Where nothing asks for sizes, nothing is inferred either.

    Raises:
        ModelError: Shapes contradict each other.
    """
    total = 0
    for _ in range(_ROUNDS):
        if not any(node.op_type == "Shape" for node in graph.graph.all_nodes()):
            break
        folded = _fold_sizes(graph)
        while some := fold_constants(graph):
            folded += some
        folded += settle_branches(graph)
        if not folded:
            break
        total += folded
    if total:
        drop_unused(graph)
        sort(graph)
        infer_shapes(graph)
    return total


def _fold_sizes(graph: ir.Model) -> int:
    known = inferred(graph)
    folded = 0
    for node in list(graph.graph.all_nodes()):
        array = None if node.domain or node.outputs[0].is_graph_output() else _asked(node, known)
        if array is not None:
            replace_by_constant(node, node.outputs[0], ir.tensor(array))
            folded += 1
    return folded


def _asked(node: ir.Node, known: Mapping[str, onnx.ValueInfoProto]) -> npt.NDArray[np.int64] | None:
    """What a Shape, or a Gather or Slice of one, gives; None where it is not known or no such."""
    if node.op_type == "Shape":
        sizes = _shape_of(node, known)
        return None if sizes is None or None in sizes else np.array(sizes, np.int64)
    source = node.inputs[0] if node.op_type in ("Gather", "Slice") else None
    before = None if source is None else source.producer()
    if before is None or before.op_type != "Shape" or before.domain:
        return None
    sizes = _shape_of(before, known)
    places = None if sizes is None else _places(node, len(sizes))
    if sizes is None or places is None:
        return None
    taken = [sizes[place] for place in places.reshape(-1)]
    return None if None in taken else np.array(taken, np.int64).reshape(places.shape)


def _shape_of(node: ir.Node, known: Mapping[str, onnx.ValueInfoProto]) -> Sizes | None:
    """Sizes that a Shape node gives, None for free ones; None where the rank is not known."""
    source = node.inputs[0]
    # What the file declares of an output is a claim, and inference takes it over.
    info = None if source is None or source.is_graph_output() else known.get(source.name or "")
    if info is None or not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    sizes = tuple(dim.dim_value if dim.dim_value > 0 else None for dim in dims)
    start = node.attributes.get_int("start", 0)
    return sizes[start : node.attributes.get_int("end")]


def _places(node: ir.Node, rank: int) -> npt.NDArray[np.int64] | None:
    """Which of the sizes a Gather or Slice with constant operands takes."""
    operands = [array_of(value) for value in node.inputs[1:]]
    every = np.arange(rank)
    if not operands or any(array is None for array in operands):
        return None
    held = [np.asarray(array) for array in operands]
    if node.op_type == "Gather":
        inside = ((held[0] >= -rank) & (held[0] < rank)).all()
        return every[held[0]] if inside else None
    starts, ends, *more = (array.reshape(-1).tolist() for array in held)
    step = more[1][0] if len(more) > 1 else 1
    return every[starts[0] : ends[0] : step]
