"""What is selected lies inside one of the values that are joined.

    Select(Concat(a, b))  =  Select(a)          or a itself, where all of it is selected

Select is a Gather of constant indices, a Slice, or a Split with one output in use.
It must not fire along another axis, where positions of two values are selected, or where a size is
not known.
Imperative, since the number of values is open. ONNX Runtime does nothing of it; measured 1.5.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse
from edgeopt.transforms.rewrite._around import Steps
from edgeopt.transforms.rewrite._selection import selection_of


@dataclass(frozen=True, slots=True)
class _Inside:
    root: ir.Node
    value: ir.Value
    axis: int
    indices: tuple[int, ...]
    whole: bool


def _match(root: ir.Node) -> _Inside | Rejection:
    found, source = selection_of(root), root.inputs[0]
    concat = None if source is None else source.producer()
    if found is None or source is None or source.shape is None or found[1]:
        return refuse("it selects no constant positions of one axis", root)
    if concat is None or concat.op_type != "Concat" or concat.domain:
        return refuse("it selects from nothing that is joined", root)
    if concat.graph is not root.graph or len(root.outputs) > 1:
        return refuse("it is a Split, or in another graph", root)
    part = found[0]
    if integer(concat, "axis", 0) % len(source.shape) != part.axis:
        return refuse("it selects along another axis", root)
    start = 0
    for value in concat.inputs:
        size = None if value is None or value.shape is None else value.shape[part.axis]
        if value is None or not isinstance(size, int):
            break
        inside = tuple(index - start for index in part.indices)
        if all(0 <= index < size for index in inside):
            whole = inside == tuple(range(size))
            if whole and root.outputs[0].is_graph_output():
                return refuse("it names a graph output", root)
            return _Inside(root, value, part.axis, inside, whole)
        start += size
    return refuse("positions of two values are selected, or a size is free", root)


def _rewrite(editor: Editor, found: _Inside) -> None:
    root = found.root
    if found.whole:
        editor.replace_uses(root.outputs[0], found.value)
        editor.remove_dead([root])
        return
    steps = Steps(editor, "select_of_concat", root)
    index = steps.constant("indices", np.array(found.indices, np.int64))
    inputs = [found.value, index]
    steps.add("part", "Gather", inputs, root.outputs[0].shape, axis=found.axis)
    steps.finish()


PLUGIN = LocalRule(
    name="select_of_concat",
    roots=frozenset({"Slice", "Gather"}),
    match=_match,
    rewrite=_rewrite,
)
