"""A permutation of channels before convolutions, in the order of what their weights read.

    Conv(g(x[:, order]), W)  =  Conv(g'(x), W[:, order back])

The permutation is a channel shuffle (Reshape, Transpose, Reshape) or a Gather, as of the colours
of an image; g is whatever treats channels apart: activations, poolings, normalizations and
depthwise convolutions, whose own constants go the same way.
Every layer that reads it takes it in, or none does.

It must not fire where something else reads the permuted channels (a residual, a Split, an output,
a convolution in groups), where what moves is no permutation, or where weights are no constants.
Imperative, since it is about all readers of a value. ONNX Runtime does nothing of it; measured
1.14. `shuffle_to_rows` is the same for the layer before it.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import (
    LocalRule,
    input_of,
    integer,
    integers,
    refuse,
    set_constant,
    site_of,
)
from edgeopt.transforms.rewrite._around import maker, sizes_of
from edgeopt.transforms.rewrite._batchnorm import normalises_batch

_APART = frozenset(
    {
        *("Relu", "LeakyRelu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "Tanh", "Elu"),
        *("Gelu", "Softplus", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
    }
)
_SHUFFLE = [0, 2, 1]


@dataclass(slots=True)
class _Columns:
    root: ir.Node
    source: ir.Value
    back: list[int]
    """For each channel before the permutation, where it was behind it."""
    constants: list[tuple[ir.Node, int, int]] = field(
        default_factory=list[tuple[ir.Node, int, int]]
    )
    """Node, input and axis of every constant that follows."""


def _match(root: ir.Node) -> _Columns | Rejection:
    found = _gathered(root) if root.op_type == "Gather" else _shuffled(root)
    if isinstance(found, Rejection):
        return found
    source, order = found
    columns = _Columns(root, source, np.argsort(order).tolist())
    waiting, seen = [root.outputs[0]], set[ir.Node]()
    while waiting:
        value = waiting.pop()
        if value.is_graph_output() or not value.uses():
            return refuse("the permuted channels are an output, or nobody reads them", root)
        for user, index in value.uses():
            if user in seen:
                continue
            seen.add(user)
            if index or user.graph is not root.graph or user.domain:
                return refuse("something else reads the permuted channels", user)
            follows = _constants(user, len(order))
            if follows is None:
                return refuse("something else reads the permuted channels", user)
            columns.constants += follows
            if not _reads_all(user):
                waiting.append(user.outputs[0])
    return columns


def _gathered(root: ir.Node) -> tuple[ir.Value, list[int]] | Rejection:
    sizes, places = sizes_of(root.outputs[0]), array_of(input_of(root, 1))
    source = root.inputs[0]
    if sizes is None or places is None or source is None or integer(root, "axis", 0) != 1:
        return refuse("it does not move known channels", root)
    order = [int(one) % len(places.reshape(-1)) for one in places.reshape(-1)]
    known = source.shape is not None and source.shape[1] == len(order)
    if places.ndim != 1 or not known or sorted(order) != list(range(len(order))):
        return refuse("it is no permutation", root)
    return source, order


def _shuffled(root: ir.Node) -> tuple[ir.Value, list[int]] | Rejection:
    transpose = maker(root, 0, "Transpose")
    split = None if transpose is None else maker(transpose, 0, "Reshape")
    source = None if split is None else split.inputs[0]
    if transpose is None or split is None or source is None:
        return refuse("it does not end a channel shuffle", root)
    before, between, after = (sizes_of(v) for v in (source, split.outputs[0], root.outputs[0]))
    if before is None or between is None or before != after or len(between) != len(before) + 1:
        return refuse("it does not keep a known shape", root)
    kept = before[:1] == between[:1] and before[2:] == between[3:]
    rest = list(range(3, len(between)))
    if not kept or list(integers(transpose, "perm")) != [*_SHUFFLE, *rest]:
        return refuse("it moves more than channels", root)
    outer, inner = between[1], between[2]
    return source, [row * inner + column for column in range(inner) for row in range(outer)]


def _constants(user: ir.Node, channels: int) -> list[tuple[ir.Node, int, int]] | None:
    """What of a reader follows the permutation; None where it cannot."""
    if user.op_type in _APART:
        return [] if len(user.outputs) == 1 else None
    if user.op_type == "BatchNormalization" and not normalises_batch(user):
        found = [(user, index, 0) for index in range(1, 5)]
    elif user.op_type == "Conv" and integer(user, "group", 1) == 1:
        found = [(user, 1, 1)]
    elif user.op_type == "Conv" and _is_depthwise(user, channels):
        bias = [] if input_of(user, 2) is None else [(user, 2, 0)]
        found = [(user, 1, 0), *bias]
    else:
        return None
    arrays = [array_of(user.inputs[index]) for _, index, _ in found]
    return None if any(array is None for array in arrays) else found


def _is_depthwise(conv: ir.Node, channels: int) -> bool:
    weight = array_of(conv.inputs[1])
    return weight is not None and weight.shape[:2] == (channels, 1) == (
        integer(conv, "group", 1),
        1,
    )


def _reads_all(user: ir.Node) -> bool:
    return user.op_type == "Conv" and integer(user, "group", 1) == 1


def _rewrite(editor: Editor, found: _Columns) -> None:
    for node, index, axis in found.constants:
        array = array_of(node.inputs[index])
        assert array is not None, "the match has seen it"
        name = f"{site_of(node)}/shuffle_to_columns/{index}"
        set_constant(editor, node, index, name, np.take(array, found.back, axis))
    editor.replace_uses(found.root.outputs[0], found.source)
    editor.remove_dead([found.root])


PLUGIN = LocalRule(
    name="shuffle_to_columns",
    roots=frozenset({"Reshape", "Gather"}),
    match=_match,
    rewrite=_rewrite,
    opset=5,
)
