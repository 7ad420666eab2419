"""Which output columns of a layer stand on the axes of a value that is made of it by views alone.

An axis is a row (whatever else the layer has: batch, tokens, positions) or a factor of the columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import onnx_ir as ir

from edgeopt.graph.editor import array_of, sole_user
from edgeopt.transforms.local_rule import input_of, integer, integers


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of a viewed value.

    Args:
        leading: Rows before the columns, as entries of a Reshape.
        trailing: Rows behind them.
        factors: Sizes whose product is the number of columns, outermost first.
        axes: For each axis of the value its place: rows count from 0 through `leading`, then
            `trailing`; a factor is -1 - its number.
        chain: The views gone through.
        tail: Target of a Reshape that is the last of these, which leaves the first axis (a
            factor) as it is and lays the others out anew; `axes` are those before it.
    """

    leading: tuple[int, ...]
    trailing: tuple[int, ...]
    factors: tuple[int, ...]
    axes: tuple[int, ...]
    chain: tuple[ir.Node, ...]
    tail: ir.Value | None = None

    @property
    def rank(self) -> int:
        """Number of axes of the value."""
        made = self.value.shape
        return len(self.axes) if self.tail is None or made is None else len(made)

    @property
    def value(self) -> ir.Value:
        """What the last view makes."""
        return self.chain[-1].outputs[0]

    def factor(self, axis: int) -> int | None:
        """The number of the factor on an axis; None where it is a row, or mixed with others."""
        if self.tail is not None and axis:
            return None
        place = self.axes[axis]
        return -1 - place if place < 0 else None


def split_columns(view: ir.Node, columns: int, axis: int) -> Layout | None:
    """What a Reshape makes of a layer's result, one axis of which are its columns.

    Args:
        view: The Reshape.
        columns: How many the layer has.
        axis: On which axis of its result they stand.
    """
    source = view.inputs[0]
    if view.outputs[0].shape is None or source is None or source.shape is None:
        return None
    made = _sizes(source.shape, view.outputs[0].shape)
    last = axis == len(source.shape) - 1
    span = _span([*made][::-1], 0, columns) if last else _span([*made], axis, columns)
    if span is None:
        return None
    start, end = (len(made) - span[1], len(made) - span[0]) if last else span
    if not last and not _rows_stay(source.shape, made, axis, end):
        return None
    entries = _entries(view, source.shape, made)
    rows = [*entries[:start], *entries[end:]]
    if None in rows or sum(one == -1 for one in rows) > 1:
        return None
    if any(one == 0 for one in entries[end:]):
        return None
    factors = tuple(int(one) for one in made[start:end] if isinstance(one, int))
    places = [*range(start), *(-1 - i for i in range(end - start))]
    places += range(start, start + len(made) - end)
    sizes = tuple(one for one in rows if one is not None)
    return Layout(sizes[:start], sizes[start:], factors, tuple(places), (view,))


def _sizes(source: ir.ShapeProtocol, made: ir.ShapeProtocol) -> list[object]:
    """The sizes that a Reshape makes; one that is left open follows where all others are known."""
    left, found = [*source], list[object](made)
    for size in made:
        place = next((i for i, other in enumerate(left) if _proven(size, other)), None)
        if place is not None and not isinstance(size, int):
            left.pop(place)
    free = [
        axis
        for axis, size in enumerate(found)
        if not isinstance(size, int) and not any(_proven(size, other) for other in source)
    ]
    numbers = [size for size in left if isinstance(size, int)]
    told = prod(size for size in found if isinstance(size, int))
    if len(free) == 1 and len(numbers) == len(left) and told and prod(numbers) % told == 0:
        found[free[0]] = prod(numbers) // told
    return found


def _rows_stay(source: ir.ShapeProtocol, made: Sequence[object], axis: int, end: int) -> bool:
    """Whether rows before the columns, or those behind them, are proven to be as many."""
    if all(_proven(one, other) for one, other in zip(source[:axis], made[:axis], strict=True)):
        return True
    pair = ([*source[axis + 1 :]], [*made[end:]])
    known = [[one for one in sizes if isinstance(one, int)] for sizes in pair]
    whole = all(len(one) == len(sizes) for one, sizes in zip(known, pair, strict=True))
    return whole and prod(known[0]) == prod(known[1])


def _span(sizes: Sequence[object], start: int, columns: int) -> tuple[int, int] | None:
    """Where consecutive sizes multiply to the columns."""
    end, found = start, 1
    while end < len(sizes) and found < columns:
        size = sizes[end]
        if not isinstance(size, int):
            return None
        found, end = found * size, end + 1
    return (start, end) if found == columns and end > start else None


def _entries(view: ir.Node, source: ir.ShapeProtocol, made: Sequence[object]) -> list[int | None]:
    """What a Reshape would be told to make each axis again: a size, 0 to copy it, or -1."""
    target = array_of(input_of(view, 1))
    found: list[int | None] = []
    for axis, size in enumerate(made):
        told = None if target is None else int(target[axis])
        if isinstance(size, int):
            found.append(size)
        elif axis < len(source) and _proven(source[axis], size):
            found.append(0)
        else:
            found.append(-1 if told == -1 else None)
    return found


def _proven(one: object, other: object) -> bool:
    """Whether two sizes are the same: numbers, or the same name."""
    return (isinstance(one, int) or getattr(one, "value", None) is not None) and one == other


def through_views(layout: Layout) -> Layout:
    """The layout behind all Transposes, Unsqueezes and Squeezes that alone read the value.

    Also behind a Reshape at their end that leaves the first axis, a factor, as it is: so Segment
    Anything merges heads with windows before queries, keys and values come apart.
    """
    while True:
        user = sole_user(layout.value)
        further = None if user is None or user.domain else _behind(layout, user)
        if further is None:
            return layout if user is None or user.domain else _merged(layout, user)
        layout = further


def _merged(layout: Layout, node: ir.Node) -> Layout:
    made, target = node.outputs[0].shape, input_of(node, 1)
    number = layout.factor(0) if node.op_type == "Reshape" else None
    if number is None or made is None or target is None or len(made) < 2:
        return layout
    told = array_of(target)
    kept = made[0] == layout.factors[number] and not integer(node, "allowzero", 0)
    if not kept or (told is not None and told.ndim != 1):
        return layout
    return replace(layout, chain=(*layout.chain, node), tail=target)


def _behind(layout: Layout, node: ir.Node) -> Layout | None:
    axes, chain = layout.axes, (*layout.chain, node)
    if node.op_type == "Transpose":
        order = integers(node, "perm") or tuple(range(len(axes)))[::-1]
        return replace(layout, axes=tuple(axes[one] for one in order), chain=chain)
    given = array_of(input_of(node, 1))
    if given is None or given.ndim != 1:
        return None
    if node.op_type == "Squeeze":
        gone = {int(one) % len(axes) for one in given}
        factors = [layout.factor(axis) for axis in gone]
        if any(one is None or layout.factors[one] != 1 for one in factors):
            return None
        left = tuple(place for axis, place in enumerate(axes) if axis not in gone)
        return replace(layout, axes=left, chain=chain)
    if node.op_type != "Unsqueeze":
        return None
    new = sorted(int(one) % (len(axes) + given.size) for one in given)
    wider = list(axes)
    for count, axis in enumerate(new):
        wider.insert(axis, -1 - len(layout.factors) - count)
    sizes = (*layout.factors, *(1,) * len(new))
    return replace(layout, axes=tuple(wider), factors=sizes, chain=chain)


def view_of(layout: Layout) -> tuple[list[int], list[int]]:
    """Target of a Reshape and order of a Transpose that make the layout of a layer's result."""
    kept = sorted(-1 - place for place in layout.axes if place < 0)
    order = {-1 - number: len(layout.leading) + i for i, number in enumerate(kept)}
    for row in range(len(layout.leading) + len(layout.trailing)):
        order[row] = row if row < len(layout.leading) else row + len(kept)
    target = [*layout.leading, *(layout.factors[one] for one in kept), *layout.trailing]
    assert prod(layout.factors[one] for one in kept) == prod(layout.factors), "only 1s may go"
    return target, [order[place] for place in layout.axes]
