"""Sizes as values: Shape and what picks from it, and constants that say the size of an axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.edits import Size
from edgeopt.transforms.channels.labels import Axis, same
from edgeopt.transforms.channels.walk import Walk, rule, size_of


@dataclass(frozen=True, slots=True)
class Entry:
    """One element of a list of sizes.

    Args:
        number: Where it is a constant.
        place: The node that reads the constant, which operand, which element.
        user: What reads the Concat that the node is, and as which operand; None without one.
        follows: The axis whose size it is, where Shape said so.
    """

    number: int | None = None
    place: tuple[ir.Node, int, int] | None = None
    user: tuple[ir.Node, int] | None = None
    follows: Axis = ()


@rule("Shape")
def shape(walk: Walk, node: ir.Node) -> str | None:
    """The size of every axis, or of some."""
    axes = walk.of(node.inputs[0])
    start = node.attributes.get_int("start", 0) or 0
    end = node.attributes.get_int("end", len(axes))
    walk.sizes[node.outputs[0]] = axes[start:end]
    return None


@rule("Size")
def size(walk: Walk, node: ir.Node) -> str | None:
    """All of them together."""
    return "it computes with their number"


def entries(walk: Walk, node: ir.Node, index: int) -> list[Entry] | None:
    """The elements of a list of sizes that a node reads; None where even their number is open."""
    value = node.inputs[index] if len(node.inputs) > index else None
    found = _constants(node, index)
    if found is not None:
        return found
    maker = None if value is None else value.producer()
    if maker is not None and maker.op_type in ("Cast", "Identity") and value is not None:
        return entries(walk, maker, 0) if len(value.uses()) == 1 else None
    if value is not None and value in walk.sizes and (maker is None or maker.op_type != "Concat"):
        return [Entry(follows=axis) for axis in walk.sizes[value]]
    if maker is None or maker.op_type != "Concat":
        return None
    listed: list[Entry] = []
    for position, part in enumerate(maker.inputs):
        held = _constants(maker, position, (node, index))
        if held is None and part is not None and part in walk.sizes:
            held = [Entry(follows=axis) for axis in walk.sizes[part]]
        if held is None:
            count = size_of(part, 0)
            if count is None:
                return None
            held = [Entry()] * count
        listed += held
    return listed


def fix(walk: Walk, node: ir.Node, index: int, axes: Sequence[Axis]) -> str | None:
    """See to it that a list of sizes says what is left of some axes; a reason where it cannot.

    Args:
        walk: Gets the edits.
        node: Reads the list.
        index: As which operand.
        axes: Of what the list describes, an element each.
    """
    found = entries(walk, node, index)
    if found is None or len(found) != len(axes):
        return "sizes are computed" if any(axes) else None
    edits: list[Size] = []
    for axis, entry in zip(axes, found, strict=True):
        if entry.follows and not same(entry.follows, axis):
            return "their number is that of something else"
        if not axis or entry.follows:
            continue
        if entry.number is None or entry.place is None:
            return "sizes are computed"
        if entry.number > 0:
            edits.append(Size(*entry.place, axis, entry.user))
    walk.edits += edits
    return None


def _constants(
    node: ir.Node, index: int, user: tuple[ir.Node, int] | None = None
) -> list[Entry] | None:
    array = array_of(node.inputs[index]) if len(node.inputs) > index else None
    if array is None:
        return None
    return [Entry(int(v), (node, index, i), user) for i, v in enumerate(array.reshape(-1))]
