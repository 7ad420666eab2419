"""What was joined and is split at the same places.

    Split(Concat(a, b))  =  a, b          along the same axis

It must not fire along another axis, where places differ or sizes are not known, or where a part is
a graph output (it would lose its producer).
Imperative, since the number of parts is open. ONNX Runtime does nothing of it; measured 1.4.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse


@dataclass(frozen=True, slots=True)
class _Apart:
    root: ir.Node
    values: tuple[ir.Value, ...]


def _match(root: ir.Node) -> _Apart | Rejection:
    source = root.inputs[0]
    concat = None if source is None else source.producer()
    if concat is None or concat.op_type != "Concat" or concat.domain or source is None:
        return refuse("it splits nothing that is joined", root)
    if source.shape is None or concat.graph is not root.graph:
        return refuse("its rank is not known, or it lies in another graph", root)
    rank = len(source.shape)
    axis = integer(root, "axis", 0) % rank
    if integer(concat, "axis", 0) % rank != axis or len(concat.inputs) != len(root.outputs):
        return refuse("it splits along another axis, or into other parts", root)
    pairs = [
        (_size(value, axis), _size(part, axis))
        for value, part in zip(concat.inputs, root.outputs, strict=True)
    ]
    if any(one is None or one != other for one, other in pairs):
        return refuse("the places differ, or a size is free", root)
    if any(part.is_graph_output() for part in root.outputs):
        return refuse("a part is a graph output", root)
    return _Apart(root, tuple(value for value in concat.inputs if value is not None))


def _size(value: ir.Value | None, axis: int) -> int | None:
    size = None if value is None or value.shape is None else value.shape[axis]
    return size if isinstance(size, int) else None


def _rewrite(editor: Editor, found: _Apart) -> None:
    for part, value in zip(found.root.outputs, found.values, strict=True):
        editor.replace_uses(part, value)
    editor.remove_dead([found.root])


PLUGIN = LocalRule(
    name="split_of_concat", roots=frozenset({"Split"}), match=_match, rewrite=_rewrite
)
