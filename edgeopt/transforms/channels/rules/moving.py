"""Operators that move places along an axis, or axes, and change no number."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.edits import Bounds, Parts, Places
from edgeopt.transforms.channels.labels import NONE, Axis, joined, picked
from edgeopt.transforms.channels.rules.layers import tied_or_spread
from edgeopt.transforms.channels.rules.sizes import entries, fix
from edgeopt.transforms.channels.walk import Walk, constant_shape, is_constant, rule, size_of

_NO_RANK = "its rank is not known"
_COMPUTED = "where it cuts is computed"


@rule("Transpose")
def transpose(walk: Walk, node: ir.Node) -> str | None:
    """Axes in another order."""
    axes = walk.of(node.inputs[0])
    order = node.attributes.get_ints("perm") or range(len(axes))[::-1]
    walk.put(node.outputs[0], [axes[int(axis)] for axis in order])
    return None


@rule("Squeeze")
def squeeze(walk: Walk, node: ir.Node) -> str | None:
    """Axes of one place go."""
    source = node.inputs[0]
    if source in walk.sizes:
        return "it computes with their number"
    axes = walk.of(source)
    listed = _axes(node, 1)
    if listed is None:
        return "its axes are computed"
    gone = {axis % len(axes) for axis in listed} or {
        axis for axis in range(len(axes)) if size_of(source, axis) == 1
    }
    walk.freeze([axes[axis] for axis in gone], "a Squeeze takes the axis out")
    walk.put(node.outputs[0], [axis for index, axis in enumerate(axes) if index not in gone])
    return None


@rule("Unsqueeze")
def unsqueeze(walk: Walk, node: ir.Node) -> str | None:
    """New axes of one place; a single size becomes a list."""
    source, listed = node.inputs[0], _axes(node, 1)
    if source is not None and source in walk.sizes:
        walk.sizes[node.outputs[0]] = walk.sizes[source]
        return None
    axes = list(walk.of(source))
    if listed is None:
        return "its axes are computed"
    rank = len(axes) + len(listed)
    for axis in sorted(axis % rank for axis in listed):
        axes.insert(axis, ())
    walk.put(node.outputs[0], axes)
    return None


@rule("Concat")
def concat(walk: Walk, node: ir.Node) -> str | None:
    """Places side by side on one axis; on the others operands lose the same places."""
    operands = [value for value in node.inputs if value is not None]
    if any(value in walk.sizes for value in operands):
        found = [
            walk.sizes.get(value, ((),) * (size_of(value, 0) or _length(value)))
            for value in operands
        ]
        walk.sizes[node.outputs[0]] = tuple(axis for part in found for axis in part)
        return None
    rank = len(node.outputs[0].shape or ())
    if not rank:
        return _NO_RANK
    along = (node.attributes.get_int("axis", 0) or 0) % rank
    made: list[Axis] = []
    for axis in range(rank):
        if axis == along:
            parts = [(_axis(walk, value, axis), _size(value, axis)) for value in operands]
            known = [(labels, size) for labels, size in parts if size is not None]
            if len(known) < len(parts):
                walk.freeze([labels for labels, _ in parts], "their size is not known")
            made.append(joined(known) if len(known) == len(parts) else ())
        else:
            made.append(_alongside(walk, node, axis))
    walk.put(node.outputs[0], made)
    return None


@rule("Split")
def split(walk: Walk, node: ir.Node) -> str | None:
    """Parts of an axis; how large they are is rewritten."""
    source = node.inputs[0]
    axes = walk.of(source)
    if not axes or source in walk.sizes:
        return _NO_RANK
    along = (node.attributes.get_int("axis", 0) or 0) % len(axes)
    sizes = [size_of(value, along) for value in node.outputs]
    known = [size for size in sizes if size is not None]
    if axes[along] and (len(known) < len(sizes) or sum(known) != len(axes[along][0])):
        return _COMPUTED
    if axes[along] and len(node.inputs) > 1 and array_of(node.inputs[1]) is None:
        return _COMPUTED
    parts: list[tuple[Axis, int]] = []
    start = 0
    for value, size in zip(node.outputs, sizes, strict=True):
        held = axes[along]
        if held and size is not None:
            held = _part(walk, held, slice(start, start + size))
            start += size
        parts.append((held, size or 0))
        walk.put(value, [held if axis == along else each for axis, each in enumerate(axes)])
    if axes[along]:
        walk.edits.append(Parts(node, tuple(parts)))
    return None


@rule("Slice")
def cut_out(walk: Walk, node: ir.Node) -> str | None:
    """A stretch of an axis; where it begins and ends is rewritten."""
    source = node.inputs[0]
    listed = _axes(node, 3)
    starts, ends, steps = (
        array_of(node.inputs[index]) if len(node.inputs) > index else None for index in (1, 2, 4)
    )
    if source is not None and source in walk.sizes:
        return _sliced_sizes(walk, node, source, starts, ends)
    axes = list(walk.of(source))
    if listed is None:
        return _COMPUTED
    listed = listed or list(range(len(axes)))
    for position, axis in enumerate(axis % len(axes) for axis in listed):
        held = axes[axis]
        if not held:
            continue
        step = 1 if steps is None else int(steps.reshape(-1)[position])
        if starts is None or ends is None or step != 1:
            return _COMPUTED
        length = len(held[0])
        bounds = slice(int(starts.reshape(-1)[position]), int(ends.reshape(-1)[position]))
        first, last, _ = bounds.indices(length)
        axes[axis] = _part(walk, held, slice(first, last))
        walk.edits.append(Bounds(node, position, held, first, last))
    walk.put(node.outputs[0], axes)
    return None


@rule("Pad")
def pad(walk: Walk, node: ir.Node) -> str | None:
    """New places, which stay, around the old ones."""
    axes = list(walk.of(node.inputs[0]))
    pads = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
    listed = _axes(node, 3)
    if pads is None or listed is None:
        return _COMPUTED
    listed = listed or list(range(len(axes)))
    for position, axis in enumerate(axis % len(axes) for axis in listed):
        before, after = int(pads[position]), int(pads[position + len(listed)])
        if not axes[axis] or not (before or after):
            continue
        if min(before, after) < 0 or node.attributes.get_string("mode", "constant") != "constant":
            return "it pads them with one another"
        axes[axis] = tuple(
            np.pad(labels, (before, after), constant_values=NONE) for labels in axes[axis]
        )
    walk.put(node.outputs[0], axes)
    return None


@rule("Resize", "Upsample")
def resize(walk: Walk, node: ir.Node) -> str | None:
    """Other axes may be stretched; sizes that are said are rewritten."""
    axes = walk.of(node.inputs[0])
    listed = list(node.attributes.get_ints("axes") or range(len(axes)))
    at = 1 if node.op_type == "Upsample" else 2
    scales = array_of(node.inputs[at]) if len(node.inputs) > at else None
    held = [axes[int(axis)] for axis in listed]
    if scales is not None and scales.size == len(listed):
        if any(axis and scale != 1 for axis, scale in zip(held, scales, strict=True)):
            return "it stretches them"
    elif len(node.inputs) > 3 and node.inputs[3] is not None:
        found = entries(walk, node, 3) or []
        pairs = list(zip(held, found, strict=False))
        if any(axis and e.number not in (None, len(axis[0])) for axis, e in pairs):
            return "it stretches them"
        reason = fix(walk, node, 3, held)
        if reason is not None:
            return reason
    elif any(held):
        return _COMPUTED
    walk.put(node.outputs[0], axes)
    return None


@rule("Expand")
def expand(walk: Walk, node: ir.Node) -> str | None:
    """Axes of one place are repeated; sizes that are said are rewritten."""
    source, made = node.inputs[0], node.outputs[0]
    axes, found = walk.of(source), entries(walk, node, 1)
    if found is None or made.shape is None:
        return "sizes are computed"
    rank = len(made.shape)
    wide = [*((),) * (rank - len(axes)), *axes]
    if any(axis and size_of(made, index) != len(axis[0]) for index, axis in enumerate(wide)):
        return "it spreads them"
    wanted = wide[rank - len(found) :]
    said = [axis if entry.number != 1 else () for axis, entry in zip(wanted, found, strict=True)]
    reason = fix(walk, node, 1, said)
    if reason is None:
        walk.put(made, wide)
    return reason


@rule("Tile")
def tile(walk: Walk, node: ir.Node) -> str | None:
    """Places again and again."""
    axes, times = walk.of(node.inputs[0]), array_of(node.inputs[1])
    if times is None or times.size != len(axes):
        return _COMPUTED
    made = [
        tuple(np.tile(labels, int(count)) for labels in axis)
        for axis, count in zip(axes, times, strict=True)
    ]
    walk.put(node.outputs[0], made)
    return None


@rule("DepthToSpace")
def depth_to_space(walk: Walk, node: ir.Node) -> str | None:
    """Blocks of channels become pixels: all channels of a block go together."""
    axes = walk.of(node.inputs[0])
    block = (node.attributes.get_int("blocksize", 1) or 1) ** 2
    if len(axes[1]) != 1:
        return "it spreads them over pixels"
    (labels,) = axes[1]
    blocked = node.attributes.get_string("mode", "DCR") == "DCR"
    rows = labels.reshape(block, -1).T if blocked else labels.reshape(-1, block)
    walk.put(node.outputs[0], ((), (walk.tie_rows(rows),), (), ()))
    return None


@rule("SpaceToDepth")
def space_to_depth(walk: Walk, node: ir.Node) -> str | None:
    """Pixels become channels: every channel stands there as often as a block has pixels."""
    axes = walk.of(node.inputs[0])
    times = (node.attributes.get_int("blocksize", 1) or 1) ** 2
    made = tuple(np.tile(labels, times) for labels in axes[1])
    walk.put(node.outputs[0], ((), made, (), ()))
    return None


@rule("Gather", opens=True)
def gather(walk: Walk, node: ir.Node) -> str | None:
    """A table of embeddings makes channels; of other values constant places are picked."""
    source, indices = node.inputs[0], node.inputs[1]
    table, where = array_of(source), array_of(indices)
    along = node.attributes.get_int("axis", 0) or 0
    if source is None or indices is None or indices.shape is None:
        return _NO_RANK
    if source in walk.sizes:
        return _picked_size(walk, node, source)
    if table is not None:
        if table.ndim == 2 and table.dtype.kind == "f" and along == 0 and where is None:
            made: Axis = (walk.open(node.outputs[0], table.shape[1]),)
            walk.cut(node, 0, 1, made)
            walk.put(node.outputs[0], (*((),) * len(indices.shape), made))
        return None
    axes = walk.of(source)
    if not axes:
        return None if not walk.holds(source) else _NO_RANK
    along %= len(axes)
    new: list[Axis] = [()] * len(indices.shape)
    if axes[along]:
        if where is None or where.ndim != 1:
            walk.freeze((axes[along],), "a Gather picks some of them")
        else:
            labels = axes[along]
            new = [_part(walk, labels, where.astype(np.int64) % len(labels[0]))]
            walk.edits.append(Places(node, labels, new[0]))
    walk.put(node.outputs[0], (*axes[:along], *new, *axes[along + 1 :]))
    return None


def _part(walk: Walk, axis: Axis, where: slice | npt.NDArray[np.int64]) -> Axis:
    """Some places of an axis, which must not all go."""
    walk.parts += [labels[where] for labels in axis]
    return picked(axis, where)


def _picked_size(walk: Walk, node: ir.Node, source: ir.Value) -> str | None:
    where = array_of(node.inputs[1])
    if where is None:
        return "it computes with their number"
    held = walk.sizes[source]
    walk.sizes[node.outputs[0]] = tuple(held[int(index)] for index in where.reshape(-1))
    return None


def _sliced_sizes(
    walk: Walk,
    node: ir.Node,
    source: ir.Value,
    starts: npt.NDArray[Any] | None,
    ends: npt.NDArray[Any] | None,
) -> str | None:
    steps = array_of(node.inputs[4]) if len(node.inputs) > 4 else np.ones(1)
    if starts is None or ends is None or steps is None or (steps != 1).any():
        return "it computes with their number"
    bounds = slice(int(starts.reshape(-1)[0]), int(ends.reshape(-1)[0]))
    walk.sizes[node.outputs[0]] = walk.sizes[source][bounds]
    return None


def _axes(node: ir.Node, index: int) -> list[int] | None:
    """The axes that a node names, as an operand or an attribute; empty for none, None if open."""
    held = node.inputs[index] if len(node.inputs) > index else None
    if held is None:
        return [int(axis) for axis in node.attributes.get_ints("axes") or ()]
    array = array_of(held)
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def _axis(walk: Walk, value: ir.Value, axis: int) -> Axis:
    axes = walk.of(value)
    return axes[axis] if axis < len(axes) else ()


def _size(value: ir.Value, axis: int) -> int | None:
    shape = constant_shape(value)
    return size_of(value, axis) if shape is None else shape[axis]


def _length(value: ir.Value) -> int:
    shape = constant_shape(value)
    return shape[0] if shape else 1


def _alongside(walk: Walk, node: ir.Node, axis: int) -> Axis:
    """An axis on which nothing is joined: constants are cut, activations tied."""
    reason = f"they meet Concat {node.outputs[0].name!r}, of which an operand stays"
    moved = [
        (_axis(walk, value, axis), size_of(value, axis))
        for value in node.inputs
        if value is not None and not is_constant(value)
    ]
    made = tied_or_spread(walk, [(labels, 0) for labels, _ in moved], reason)
    for index, value in enumerate(node.inputs):
        if made and is_constant(value) and not walk.cut(node, index, axis, made):
            walk.freeze((made,), reason)
    return made
