"""Softmax over an inner axis, laid so that it runs over the last one.

    Softmax(x, axis=a)  =  B(Softmax(A(x), axis=-1))      A moves axis a to the end, B back

The same for LogSoftmax. It must not fire on the last axis, where every axis behind is of size 1
(nothing to re-lay), where the rank is not known, or below opset 13 (there an axis flattens).
ONNX Runtime's own kernel swaps the two axes element by element: on the 16 bins of a detector's
box distribution (4 x 2100 of them) the re-laid form was measured 8 to 10 times as fast.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, refuse, site_of


@dataclass(frozen=True, slots=True)
class _Inner:
    root: ir.Node
    source: ir.Value
    forth: tuple[int, ...]
    back: tuple[int, ...]


def _match(root: ir.Node) -> _Inner | Rejection:
    source = input_of(root, 0)
    if source is None or source.shape is None:
        return refuse("the rank of its input is not known", root)
    rank = len(source.shape)
    axis = integer(root, "axis", -1) % max(rank, 1)
    if rank == 0 or axis == rank - 1:
        return refuse("it runs over the last axis already", root)
    if all(size == 1 for size in source.shape[axis + 1 :]):
        return refuse("every axis behind it is of size 1", root)
    forth = (*(i for i in range(rank) if i != axis), axis)
    return _Inner(root, source, forth, tuple(forth.index(i) for i in range(rank)))


def _rewrite(editor: Editor, found: _Inner) -> None:
    root, site = found.root, f"{site_of(found.root)}/softmax_last_axis"
    old = root.outputs[0]
    moved = new_node(
        "Transpose", [found.source], output=f"{site}/moved", attributes={"perm": found.forth}
    )
    soft = new_node(root.op_type, moved.outputs, output=f"{site}/last", attributes={"axis": -1})
    back = new_node(
        "Transpose", soft.outputs, output=site, attributes={"perm": found.back}, like=old
    )
    sizes = found.source.shape
    assert sizes is not None, "the match knows its rank"
    for value in (moved.outputs[0], soft.outputs[0]):
        value.shape, value.type = ir.Shape([sizes[i] for i in found.forth]), found.source.type
    editor.insert([moved, soft, back], before=root)
    editor.replace_value(old, back.outputs[0])
    editor.remove_dead([root])


PLUGIN = LocalRule(
    name="softmax_last_axis",
    roots=frozenset({"Softmax", "LogSoftmax"}),
    match=_match,
    rewrite=_rewrite,
    opset=13,
)
