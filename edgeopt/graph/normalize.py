"""Bring any exporter's graph into the one form that every transform can rely on.

In it every node and value has a name of its own (subgraphs included), local functions are
inlined, constants are initializers, normalizations that the runtime wrote where the standard
lacks them are spelled, small constant expressions are folded (also those of sizes
that are known), an If that always takes one branch is that branch, Identity and dead nodes are
gone, the operator set is as high as is safe and fast (in bodies too), free dimensions have names
and shapes are inferred. Names, order, types and free dimensions of inputs and outputs stay, and
so do metadata, doc strings and shared weights. Compressed weights stay compressed.
"""

from collections import Counter
from typing import cast

import onnx_ir as ir
from google.protobuf.message import EncodeError
from onnx import inliner, shape_inference, version_converter
from onnx_ir.passes import common

from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.branches import settle_branches
from edgeopt.graph.editor import Editor
from edgeopt.graph.folding import drop_identities, drop_unused, fold_constants, lift_constants
from edgeopt.graph.known_sizes import fold_known_sizes
from edgeopt.graph.opset import fastest_opset
from edgeopt.graph.own_norms import spell_norms
from edgeopt.graph.read import sort
from edgeopt.graph.reserved import free_reserved
from edgeopt.graph.runtime import synthetic_feed
from edgeopt.graph.shapes import infer_shapes
from edgeopt.graph.training import in_training_mode
from edgeopt.graph.write import copy_of, to_proto

_NOTES = "edgeopt.notes"
_HELD_FROM_BYTES = 4096
UNNAMED = frozenset({"", "?", "None", "unk"})
"""What exporters write for a free dimension without a name: two of these need not be equal."""


def normalize(graph: ir.Model, *, opset_ceiling: int = 21, feed: Feed | None = None) -> ir.Model:
    """A normalised copy of a graph.

    Args:
        graph: Unchanged.
        opset_ceiling: The highest default operator set to raise to (the lowest ceiling of the
            devices that the model is for). Lowered only where an operator of the graph is slower
            at the version given (`graph/opset.py`).
        feed: Inputs that the model takes, to compare before and after raising; without it noise
            of fitting shapes is tried.

    Returns:
        A new graph; `notes` says what was not done and why.

    Raises:
        ModelError: Functions call each other in a circle, or shapes contradict each other.
    """
    work = copy_of(graph)
    said: list[str] = []
    work = _inline(work, said)
    unique_names(work)
    free_reserved(work)
    common.RemoveInitializersFromInputsPass()(work)
    name_free_dimensions(work)
    drop_identities(work)
    lift_constants(work)
    while fold_constants(work):
        pass
    settle_branches(work)
    drop_unused(work)
    spell_norms(work)
    work.ir_version = max(work.ir_version, 8)
    work, note = fastest_opset(work, opset_ceiling, feed or synthetic_feed(work))
    said += [note] if note else []
    said += in_training_mode(work)
    # The converter adds nodes and constants of its own.
    unique_names(work)
    lift_constants(work)
    while fold_constants(work):
        pass
    drop_unused(work)
    sort(work)
    hold_arrays(work)
    try:
        infer_shapes(work)
        fold_known_sizes(work)
    except ModelError as error:
        said.append(error.what)
    work.meta[_NOTES] = tuple(said)
    return work


def hold_arrays(graph: ir.Model) -> None:
    """Read constants out of their messages, in place: one in a message is copied at every look."""
    for part in (graph.graph, *graph.graph.subgraphs()):
        for value in part.initializers.values():
            tensor = value.const_value
            if not isinstance(tensor, ir.TensorProtoTensor) or tensor.dtype == ir.DataType.STRING:
                continue
            if tensor.nbytes >= _HELD_FROM_BYTES:
                value.const_value = ir.Tensor(
                    tensor.numpy(),
                    dtype=tensor.dtype,
                    name=tensor.name,
                    doc_string=tensor.doc_string,
                    metadata_props=dict(tensor.metadata_props),
                )


def notes(graph: ir.Model) -> tuple[str, ...]:
    """What `normalize` could not do to this graph, in sentences; empty for other graphs."""
    return tuple(cast("dict[str, tuple[str, ...]]", graph.meta).get(_NOTES, ()))


def unique_names(graph: ir.Model) -> None:
    """Give every node and value a name of its own, in place; subgraphs included.

    The first of several keeps its name, outer graphs before inner ones, so that names of the
    main graph stay. New names end in a number that counts the repetitions.
    """
    parts = (graph.graph, *graph.graph.subgraphs())
    used: Counter[str] = Counter()
    for value in (*graph.graph.inputs, *graph.graph.outputs):
        used[value.name or ""] += 1
    fixed = {*graph.graph.inputs, *graph.graph.outputs}
    for part in parts:
        for value in _own_values(part):
            if value not in fixed and (value.name or value.uses()):
                value.name = _fresh(value.name or "value", used)
    nodes: Counter[str] = Counter()
    for part in parts:
        for node in part:
            first = next((v.name for v in node.outputs if v.name), "node")
            node.name = _fresh(node.name or f"{first}/{node.op_type}", nodes)


def name_free_dimensions(graph: ir.Model) -> None:
    """Name the unnamed free dimensions of the inputs after input and axis, in place.

    Exporters write nothing, -1 or `?`; the last would say that all such dimensions are equal.
    """
    for value in graph.graph.inputs:
        if value.shape is not None:
            value.shape = ir.Shape(
                [
                    f"{value.name}_{axis}" if _is_unnamed(size) else size
                    for axis, size in enumerate(value.shape)
                ]
            )
    for value in graph.graph.outputs:
        if value.shape is not None:
            value.shape = ir.Shape([None if _is_unnamed(size) else size for size in value.shape])


def split_shared(editor: Editor, value: ir.Value, node: ir.Node) -> ir.Value:
    """Give one user of a shared constant a copy of its own, before a change that is only for it.

    Args:
        editor: The copy is an edit like any other and can be undone.
        value: An initializer of the main graph.
        node: The user that gets the copy.

    Returns:
        The value that now belongs to the node alone: the given one where it has no other user.

    Raises:
        ValueError: The value is no constant, or the node does not read it.
    """
    tensor = value.const_value
    places = [index for user, index in value.uses() if user is node]
    if tensor is None or not places:
        raise ValueError(f"{value.name!r} is no constant that {node.name!r} reads")
    if {user for user, _ in value.uses()} == {node} and not value.is_graph_output():
        return value
    copy = editor.initializer(f"{value.name}__{node.outputs[0].name}", tensor.numpy())
    for index in places:
        editor.set_input(node, index, copy)
    return copy


def _inline(graph: ir.Model, said: list[str]) -> ir.Model:
    """The graph without local functions, in place where all have the opset of the model."""
    if not graph.functions:
        return graph
    try:
        if _same_opsets(graph):
            common.InlinePass()(graph)
            return graph
        made = inliner.inline_local_functions(to_proto(graph), convert_version=True)
        return _with_imports(ir.from_proto(made), graph)
    except ir.passes.PreconditionError as error:
        raise ModelError(
            f"functions of the model call each other in a circle: {error}",
            hint="export the model again",
        ) from error
    except (
        ir.passes.PassError,
        RuntimeError,
        ValueError,
        EncodeError,
        shape_inference.InferenceError,
        version_converter.ConvertError,
    ) as error:
        said.append(
            f"local functions stay: {' '.join(str(error.__cause__ or error).split())[:200]}"
        )
        return graph


def _with_imports(inlined: ir.Model, graph: ir.Model) -> ir.Model:
    """The inlined graph with what only functions imported: the inliner leaves that out."""
    used = {node.domain for node in inlined.graph.all_nodes()}
    for function in graph.functions.values():
        for domain in used & function.opset_imports.keys():
            inlined.opset_imports.setdefault(domain, function.opset_imports[domain])
    return inlined


def _same_opsets(graph: ir.Model) -> bool:
    """Whether no function was written for another version of a domain than the model is."""
    have = graph.graph.opset_imports
    return all(
        have.get(domain, version) == version
        for function in graph.functions.values()
        for domain, version in function.opset_imports.items()
    )


def _own_values(graph: ir.Graph) -> list[ir.Value]:
    found = [*graph.inputs, *(v for v in graph.initializers.values() if not v.is_graph_input())]
    return found + [value for node in graph for value in node.outputs]


def _fresh(name: str, used: Counter[str]) -> str:
    used[name] += 1
    found = name
    while used[name] > 1 and (found == name or found in used):
        found = f"{name}__{used[name]}"
        used[name] += found in used
    if found != name:
        used[found] += 1
    return found


def _is_unnamed(size: int | ir.SymbolicDim) -> bool:
    if isinstance(size, int):
        return size < 0
    return size.value is None or str(size.value) in UNNAMED
