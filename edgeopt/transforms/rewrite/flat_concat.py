"""Values that are joined in two steps, joined in one.

    Concat(Concat(a, b), c)  =  Concat(a, b, c)          along the same axis

It must not fire along different axes, or where something else reads what the inner one makes.
Imperative, since the number of values is open. ONNX Runtime does nothing of it; one copy fewer.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse
from edgeopt.transforms.rewrite._around import Steps, maker


@dataclass(frozen=True, slots=True)
class _Nested:
    root: ir.Node
    values: tuple[ir.Value | None, ...]


def _match(root: ir.Node) -> _Nested | Rejection:
    made = root.outputs[0].shape
    rank = None if made is None else len(made)
    found: list[ir.Value | None] = []
    for index, value in enumerate(root.inputs):
        inner = maker(root, index, "Concat")
        alike = inner is not None and _axis(inner, rank) == _axis(root, rank)
        found += list(inner.inputs) if inner is not None and alike else [value]
    if len(found) == len(root.inputs):
        return refuse("it joins nothing that is joined along the same axis", root)
    return _Nested(root, tuple(found))


def _axis(node: ir.Node, rank: int | None) -> int:
    axis = integer(node, "axis", 0)
    return axis if rank is None else axis % rank


def _rewrite(editor: Editor, found: _Nested) -> None:
    root = found.root
    steps = Steps(editor, "flat_concat", root)
    axis = integer(root, "axis", 0)
    steps.add("joined", "Concat", found.values, root.outputs[0].shape, axis=axis)
    steps.finish()


PLUGIN = LocalRule(name="flat_concat", roots=frozenset({"Concat"}), match=_match, rewrite=_rewrite)
