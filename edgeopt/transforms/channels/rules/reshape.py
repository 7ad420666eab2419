"""Reshape and Flatten: an axis taken apart or put together keeps its factors.

Both shapes are read as blocks that hold the same numbers: `[N, C, H, W]` and `[N, C·H·W]` are
the blocks N and C, H, W. Within a block every atom is followed to the axis of the result that it
alone decides. An axis that becomes several ones of which each place holds another atom is either
a shuffle of channels (Reshape, Transpose, Reshape back), which moves whole channels, or a split
into heads: what belongs to one head goes together.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of, sole_user
from edgeopt.transforms.channels.edits import Shuffle
from edgeopt.transforms.channels.labels import Axes, Axis, Labels
from edgeopt.transforms.channels.rules.sizes import entries, fix
from edgeopt.transforms.channels.walk import Walk, rule

_Size = int | str | None
_ELEMENTS = 16_000_000
_PARTS = (2, 3)
"""Of a factor that tells query, key and value apart."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Axes before and behind that hold the same numbers; open where sizes are not known."""

    before: range
    behind: range
    open: bool = False


@rule("Flatten", "Reshape")
def reshape(walk: Walk, node: ir.Node) -> str | None:
    """See above."""
    source, made = node.inputs[0], node.outputs[0]
    if source is not None and source in walk.sizes:
        walk.sizes[made] = walk.sizes[source]
        return None
    if source is None or source.shape is None or made.shape is None:
        return "its rank is not known"
    axes, before, behind = walk.of(source), _sizes(source), _sizes(made)
    if node.op_type == "Reshape":
        behind = _copied(walk, node, before, behind)
    if _shuffled(walk, node, axes, before, behind):
        return None
    found: list[Axis] = [()] * len(behind)
    for block in _blocks(before, behind):
        if not any(axes[axis] for axis in block.before):
            continue
        if len(block.before) == len(block.behind) == 1:
            found[block.behind[0]] = axes[block.before[0]]
            continue
        if block.open and not _closes(block, before, behind):
            return "sizes are not known"
        _follow(walk, axes, block, (before, behind), found)
    if node.op_type == "Reshape":
        reason = fix(walk, node, 1, found)
        if reason is not None:
            return reason
    walk.put(made, found)
    return None


def _sizes(value: ir.Value) -> list[_Size]:
    assert value.shape is not None, "the caller looked"
    return [size if isinstance(size, int) else size.value for size in value.shape]


def _copied(walk: Walk, node: ir.Node, before: list[_Size], behind: list[_Size]) -> list[_Size]:
    """Sizes behind a Reshape, those that it copies as they are before it."""
    found = entries(walk, node, 1)
    if found is None or len(found) != len(behind) or node.attributes.get_int("allowzero", 0):
        return behind
    return [
        before[index] if entry.number == 0 and index < len(before) else size
        for index, (entry, size) in enumerate(zip(found, behind, strict=True))
    ]


def _blocks(before: list[_Size], behind: list[_Size]) -> list[_Block]:
    front, i, j = _closed(before, behind)
    back, left, right = _closed(before[i:][::-1], behind[j:][::-1])
    ends = len(before), len(behind)
    turned = [
        _Block(
            range(ends[0] - block.before.stop, ends[0] - block.before.start),
            range(ends[1] - block.behind.stop, ends[1] - block.behind.start),
        )
        for block in reversed(back)
    ]
    middle = _Block(range(i, ends[0] - left), range(j, ends[1] - right), open=True)
    some = [middle] if len(middle.before) or len(middle.behind) else []
    return [*front, *some, *turned]


def _closes(block: _Block, before: list[_Size], behind: list[_Size]) -> bool:
    """Whether the only open size behind follows from the known ones before; it is filled in."""
    known = [size for axis in block.before if isinstance(size := before[axis], int)]
    open_ones = [axis for axis in block.behind if not isinstance(behind[axis], int)]
    said = [size for axis in block.behind if isinstance(size := behind[axis], int)]
    if len(known) < len(block.before) or len(open_ones) != 1:
        return False
    behind[open_ones[0]] = int(np.prod(known)) // max(int(np.prod(said)), 1)
    return True


def _closed(before: list[_Size], behind: list[_Size]) -> tuple[list[_Block], int, int]:
    """Blocks from the front on, as far as sizes are known, and where they end."""
    found: list[_Block] = []
    i = j = 0
    while i < len(before) and j < len(behind):
        if before[i] is not None and before[i] == behind[j]:
            found.append(_Block(range(i, i + 1), range(j, j + 1)))
            i, j = i + 1, j + 1
            continue
        block = _equal_products(before, behind, i, j)
        if block is None:
            return found, i, j
        found.append(block)
        i, j = block.before.stop, block.behind.stop
    rest = [*before[i:], *behind[j:]]
    if rest and all(size == 1 for size in rest) and found:
        last = found.pop()
        i, j = len(before), len(behind)
        found.append(_Block(range(last.before.start, i), range(last.behind.start, j)))
    return found, i, j


def _equal_products(before: list[_Size], behind: list[_Size], i: int, j: int) -> _Block | None:
    one, other = before[i], behind[j]
    a, b = i + 1, j + 1
    while isinstance(one, int) and isinstance(other, int) and one != other:
        side, at = (before, a) if one < other else (behind, b)
        size = side[at] if at < len(side) else None
        if not isinstance(size, int):
            return None
        if side is before:
            one, a = one * size, a + 1
        else:
            other, b = other * size, b + 1
    if not isinstance(one, int) or not isinstance(other, int):
        return None
    return _Block(range(i, a), range(j, b))


def _follow(
    walk: Walk, axes: Axes, block: _Block, sizes: tuple[list[_Size], list[_Size]], found: list[Axis]
) -> None:
    """Every layer of a block to the axis of the result that it decides alone."""
    before = [size for axis in block.before if isinstance(size := sizes[0][axis], int)]
    behind = [size for axis in block.behind if isinstance(size := sizes[1][axis], int)]
    if len(before) < len(block.before) or len(behind) < len(block.behind):
        # A free axis with ones beside it: which of them a place becomes is not known.
        walk.freeze(tuple(axes[axis] for axis in block.before), "a Reshape of free sizes")
        return
    for position, axis in enumerate(block.before):
        for labels in axes[axis]:
            if int(np.prod(before)) > _ELEMENTS or not behind:
                walk.freeze(((labels,),), "a Reshape spreads them")
                continue
            shape = [len(labels) if at == position else 1 for at in range(len(before))]
            whole = np.broadcast_to(labels.reshape(shape), before).reshape(behind)
            at, decided = _decided(walk, whole)
            place = block.behind[at]
            found[place] = (*found[place], decided)


def _decided(walk: Walk, whole: Labels) -> tuple[int, Labels]:
    """The axis whose places decide the atom, and the atoms along it; ties make one do so."""
    for axis in sorted(range(whole.ndim), key=lambda axis: -whole.shape[axis]):
        rows = np.moveaxis(whole, axis, 0).reshape(whole.shape[axis], -1)
        if (rows == rows[:, :1]).all():
            return axis, rows[:, 0].copy()
    heads = _heads(whole.shape)
    rows = np.moveaxis(whole, heads, 0).reshape(whole.shape[heads], -1)
    return heads, walk.tie_rows(rows)


def _heads(shape: tuple[int, ...]) -> int:
    """Which factor of an axis counts heads: the first but what tells query, key and value apart."""
    wide = [axis for axis, size in enumerate(shape) if size > 1]
    among = [axis for axis in wide[:-1] if shape[axis] not in _PARTS] if len(wide) > 2 else wide
    return (among or wide)[0]


def _shuffled(
    walk: Walk, node: ir.Node, axes: Axes, before: list[_Size], behind: list[_Size]
) -> bool:
    """Whether channels are shuffled from here on; the nodes up to the end are then done with."""
    turn = sole_user(node.outputs[0])
    back = None if turn is None else sole_user(turn.outputs[0])
    if turn is None or back is None or turn.op_type != "Transpose" or back.op_type != "Reshape":
        return False
    shape, order = back.outputs[0].shape, turn.attributes.get_ints("perm")
    if (
        shape is None
        or order is None
        or len(shape) != len(before)
        or len(behind) != len(before) + 1
    ):
        return False
    at = next((i for i, size in enumerate(before) if size != behind[i]), None)
    if at is None or before[at + 1 :] != behind[at + 2 :] or not axes[at]:
        return False
    rows, columns, width = behind[at], behind[at + 1], before[at]
    if not (isinstance(rows, int) and isinstance(columns, int) and rows * columns == width):
        return False
    swapped = [*range(at), at + 1, at, *range(at + 2, len(behind))]
    if [int(axis) for axis in order] != swapped:
        return False
    if not _restores(back, before, at) or array_of(node.inputs[1]) is None:
        return False
    places = np.arange(rows * columns).reshape(rows, columns).T.reshape(-1)
    made = tuple(labels[places] for labels in axes[at])
    walk.put(back.outputs[0], [made if i == at else axis for i, axis in enumerate(axes)])
    walk.edits.append(Shuffle(node, back, at, places, made, axes[at]))
    walk.passed |= {turn, back}
    return True


def _restores(back: ir.Node, before: list[_Size], at: int) -> bool:
    """Whether the second Reshape makes the shape that was there before the first."""
    target, shape = array_of(back.inputs[1]), back.outputs[0].shape
    if target is None or shape is None or shape[at] != before[at]:
        return False
    sizes = [size if isinstance(size, int) else size.value for size in shape]
    known = [a == b for a, b in zip(sizes, before, strict=True) if isinstance(b, int)]
    return all(known)
