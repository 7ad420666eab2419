"""Nodes that compute nothing, or nothing that anybody reads.

    Identity(x) = x        Dropout(x) = x in inference     Cast(x to its own type) = x
    Transpose(x, 0..n) = x Pad(x by zeros only) = x        Slice(x, everything) = x
    Reshape(x to its own shape) = x                        Expand, Tile (x to its own shape) = x
    LeakyRelu(x, alpha = 1) = x                            PRelu(x, 1) = x
    a node without users = nothing

Each only where the model proves it: the types, shapes and constants that are needed must be known
(a free dimension counts as kept where the target says 0, or is the only -1).

It must not fire where the input of the node is itself an input, an output or a constant of the
graph, or a value from outside a body, and the node makes a graph output (the output must keep its
name and a producer of its own), on Dropout in training mode or with its mask in use, on nodes with
subgraphs, and on unused random nodes, which may share a generator. ONNX Runtime computes unused
nodes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, integers, refuse

_RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})
_FAR = 2**31 - 1
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Dead:
    node: ir.Node
    source: ir.Value | None
    """What to read instead; None where nobody reads the node."""


def _match(node: ir.Node) -> _Dead | Rejection:
    if not any(_used(output) for output in node.outputs):
        if node.op_type in _RANDOM or _has_subgraph(node):
            return refuse("it may share a random state or hold a subgraph", node)
        return _Dead(node, None)
    proof = _PROOFS.get(node.op_type)
    source = input_of(node, 0)
    if proof is None or source is None or not proof(node, source):
        return refuse("it is not proven that it changes nothing", node)
    if any(_used(output) for output in node.outputs[1:]):
        return refuse("a second output is in use", node)
    producer = source.producer()
    # What the output of a body becomes must be made in that body.
    outside = producer is None or producer.graph is not node.graph
    fixed = outside or source.is_graph_output()
    if node.outputs[0].is_graph_output() and fixed:
        return refuse("it names a graph output that would lose its own producer", node)
    return _Dead(node, source)


def _used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _has_subgraph(node: ir.Node) -> bool:
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(attribute.type in kinds for attribute in node.attributes.values())


def _identity(node: ir.Node, source: ir.Value) -> bool:
    del node, source
    return True


def _dropout(node: ir.Node, source: ir.Value) -> bool:
    del source
    training = input_of(node, 2)
    return training is None or _all(array_of(training), 0)


def _cast(node: ir.Node, source: ir.Value) -> bool:
    return source.dtype is not None and integer(node, "to", 0) == source.dtype.value


def _transpose(node: ir.Node, source: ir.Value) -> bool:
    del source
    order = integers(node, "perm")
    return bool(order) and order == tuple(range(len(order)))


def _pad(node: ir.Node, source: ir.Value) -> bool:
    del source
    if "pads" in node.attributes:
        return not any(integers(node, "pads"))
    return _all(array_of(input_of(node, 1)), 0)


def _slice(node: ir.Node, source: ir.Value) -> bool:
    """Starts at 0, ends behind the last element, step 1, on every axis that it names."""
    starts, ends, axes, steps = (array_of(input_of(node, index)) for index in (1, 2, 3, 4))
    if starts is None or ends is None or (steps is None) != (input_of(node, 4) is None):
        return False
    if not _all(starts, 0) or (steps is not None and not _all(steps, 1)):
        return False
    if input_of(node, 3) is not None and axes is None:
        return False
    where = range(len(ends)) if axes is None else [int(axis) for axis in axes]
    return all(
        int(end) >= _FAR or _reaches(source, axis, int(end))
        for axis, end in zip(where, ends, strict=True)
    )


def _reaches(source: ir.Value, axis: int, end: int) -> bool:
    if source.shape is None:
        return False
    size = source.shape[axis]
    return isinstance(size, int) and end >= size


def _expand(node: ir.Node, source: ir.Value) -> bool:
    """The target widens nothing: each of its entries is 1 or the size that is there."""
    target = array_of(input_of(node, 1))
    return target is not None and _covers(source, target.tolist())


def _covers(source: ir.Value, sizes: Sequence[int]) -> bool:
    """Whether every one of these sizes, counted from the last axis, is 1 or that of a value."""
    if source.shape is None or len(sizes) > len(source.shape):
        return False
    own = list(source.shape)[len(source.shape) - len(sizes) :]
    return all(size in (1, had) for size, had in zip(sizes, own, strict=True))


def _leaky(node: ir.Node, source: ir.Value) -> bool:
    del source
    alpha = node.attributes.get("alpha")
    return alpha is not None and alpha.as_float() == 1.0


def _prelu(node: ir.Node, source: ir.Value) -> bool:
    slope = array_of(input_of(node, 1))
    return slope is not None and _all(slope, 1) and _covers(source, slope.shape)


def _tile(node: ir.Node, source: ir.Value) -> bool:
    del source
    return _all(array_of(input_of(node, 1)), 1)


def _reshape(node: ir.Node, source: ir.Value) -> bool:
    """Every target entry keeps its dimension; one alone may be left to be inferred."""
    target = array_of(input_of(node, 1))
    if target is None or source.shape is None or len(target) != len(source.shape):
        return False
    if integer(node, "allowzero", 0) and 0 in target:
        return False
    kept = [
        size == 0 or (isinstance(had, int) and had == size)
        for size, had in zip(target.tolist(), source.shape, strict=True)
    ]
    open_ends = sum(not one for one in kept)
    inferred = int((target == -1).sum())
    return open_ends == 0 or (open_ends == 1 and inferred == 1)


def _all(array: npt.NDArray[Any] | None, value: int) -> bool:
    return array is not None and bool((np.asarray(array) == value).all())


_PROOFS: dict[str, Callable[[ir.Node, ir.Value], bool]] = {
    "Identity": _identity,
    "Dropout": _dropout,
    "Cast": _cast,
    "Transpose": _transpose,
    "Pad": _pad,
    "Slice": _slice,
    "Reshape": _reshape,
    "Expand": _expand,
    "Tile": _tile,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
}


def _rewrite(editor: Editor, found: _Dead) -> None:
    if found.source is not None:
        output = found.node.outputs[0]
        if output.is_graph_output():
            editor.replace_value(output, found.source)
        else:
            editor.replace_uses(output, found.source)
    editor.remove_dead([found.node])


PLUGIN = LocalRule(name="drop_dead", roots=frozenset(), match=_match, rewrite=_rewrite)
