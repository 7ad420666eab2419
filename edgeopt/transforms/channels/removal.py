"""`remove`: everything that holds units of a group is cut down to the units that are kept."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.channels.edits import Cut, drop_unused
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.channels.labels import Axis, places


def remove(editor: Editor, found: Dependencies, group: Group, kept: Indices) -> str | None:
    """Cut constants, rewrite what counts channels, record the new shapes.

    Args:
        editor: Of the model that the dependencies are of; nothing may have changed since.
        found: The dependencies.
        group: One of its groups.
        kept: Units, ascending; at least one of every stratum.

    Returns:
        None, or why nothing was done: an axis would be left without a place.
    """
    units = np.ones(group.width, np.bool_)
    units[kept] = False
    gone = np.zeros(len(group.unit_of), np.bool_)
    inside = group.unit_of >= 0
    gone[inside] = units[group.unit_of[inside]]
    narrower = list(found.widths(gone))
    for value, _, _, left in narrower:
        if not left:
            return f"nothing would be left of {value.name!r}"
    _cut_constants(editor, found.cuts, gone)

    def lost(axis: Axis) -> Indices:
        return places(axis, gone)

    for edit in found.edits:
        if any(axis and len(places(axis, gone)) for axis in edit.axes):
            edit.redo(editor, lost)
    _record(editor, narrower)
    return None


def _cut_constants(editor: Editor, cuts: Iterable[Cut], gone: npt.NDArray[np.bool_]) -> None:
    made: dict[tuple[ir.Value, int, bytes], ir.Value] = {}
    for cut in cuts:
        where = places(cut.labels, gone)
        old = cut.node.inputs[cut.index]
        if not len(where) or old is None:
            continue
        key = old, cut.axis, where.tobytes()
        if key not in made:
            array = array_of(old)
            assert array is not None, "only constants are cut"
            made[key] = _smaller(editor, cut, np.delete(array, where, axis=cut.axis))
        editor.set_input(cut.node, cut.index, made[key])
        drop_unused(editor, old)


def _smaller(editor: Editor, cut: Cut, array: npt.NDArray[Any]) -> ir.Value:
    """Users that lose the same places go on sharing one constant."""
    left = array.shape[cut.axis]
    name = f"{cut.node.outputs[0].name}__operand{cut.index}_axis{cut.axis}_keep{left}"
    while name in editor.graph.initializers:
        name += "+"
    return editor.initializer(name, array)


def _record(editor: Editor, narrower: Iterable[tuple[ir.Value, int, int, int]]) -> None:
    for value, axis, size, left in narrower:
        if value.shape is not None and value.shape[axis] == size:
            sizes = [left if at == axis else old for at, old in enumerate(value.shape)]
            editor.set_shape(value, ir.Shape(sizes))
