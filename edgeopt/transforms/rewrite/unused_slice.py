"""Positions of a convolution's output that every reader slices away are not computed.

    Slice(Conv(x), from a to b)  =  Conv(Slice(x))            along one spatial axis

The input is cut to what the remaining windows see; padding that no window sees any more goes.
Other slices between (of channels) stay where they are.

It must not fire where something reads the whole output, where starts or ends are computed or a
step is not 1, where a spatial size is free, with `auto_pad`, or where everything is read.
Spectrograms do this: the first frame of an STFT, a fifth of the work, is thrown away.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, refuse, set_constant, site_of
from edgeopt.transforms.rewrite._windows import Window, pads_of, windows_of

_FIRST_SPATIAL = 2


@dataclass(frozen=True, slots=True)
class _Reader:
    """A slice along the axis: of which positions."""

    node: ir.Node
    place: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Unused:
    conv: ir.Node
    axis: int
    windows: tuple[Window, ...]
    readers: tuple[_Reader, ...]
    between: tuple[ir.Value, ...]


def _match(conv: ir.Node) -> _Unused | Rejection:
    windows = windows_of(conv)
    if isinstance(windows, Rejection):
        return windows
    reason = refuse("there is no spatial axis", conv)
    for index, window in enumerate(windows):
        between: list[ir.Value] = []
        axis = index + _FIRST_SPATIAL
        found = list(_readers(conv.outputs[0], axis, window.made, between))
        if None in found or not found:
            reason = refuse("something reads the whole output", conv)
            continue
        readers = tuple(reader for reader in found if reader is not None)
        low, high = _low(readers), _high(readers)
        if low == 0 and high == window.made:
            reason = refuse("everything is read", conv)
            continue
        smaller, _, _ = _cut(window, low, high)
        if smaller.begin >= 0 and smaller.end >= 0:
            return _Unused(conv, axis, windows, readers, tuple(between))
        reason = refuse("what is read sees nothing but padding", conv)
    return reason


def _low(readers: tuple[_Reader, ...]) -> int:
    return min(reader.start for reader in readers)


def _high(readers: tuple[_Reader, ...]) -> int:
    return max(reader.end for reader in readers)


def _readers(
    value: ir.Value, axis: int, size: int, between: list[ir.Value]
) -> Iterator[_Reader | None]:
    """Slices along an axis behind a value; None for whoever reads all of it."""
    between.append(value)
    if value.is_graph_output():
        yield None
    for user, index in value.uses():
        ranges = _ranges(user) if index == 0 and user.graph is value.graph else None
        rank = 0 if value.shape is None else len(value.shape)
        if ranges is None or not rank:
            yield None
            continue
        own = [(place, a, b) for place, (a, b, on) in enumerate(ranges) if on % rank == axis]
        if not own:
            yield from _readers(user.outputs[0], axis, size, between)
        for place, start, end in own:
            low, high, _ = slice(start, end).indices(size)
            yield _Reader(user, place, low, high) if low < high else None


def _ranges(node: ir.Node) -> list[tuple[int, int, int]] | None:
    """Start, end and axis of every entry of a Slice with constant operands and steps of 1."""
    if node.op_type != "Slice" or node.domain:
        return None
    starts, ends, axes, steps = (array_of(input_of(node, index)) for index in range(1, 5))
    if starts is None or ends is None:
        return None
    if axes is None and input_of(node, 3) is not None:
        return None
    if steps is None and input_of(node, 4) is not None:
        return None
    if steps is not None and (steps != 1).any():
        return None
    on = range(len(starts)) if axes is None else axes
    return [(int(a), int(b), int(c)) for a, b, c in zip(starts, ends, on, strict=True)]


def _rewrite(editor: Editor, found: _Unused) -> None:
    low, high = _low(found.readers), _high(found.readers)
    index = found.axis - _FIRST_SPATIAL
    window, start, end = _cut(found.windows[index], low, high)
    if (start, end) != (0, found.windows[index].size):
        _slice_input(editor, found, start, end)
    windows = (*found.windows[:index], window, *found.windows[index + 1 :])
    editor.set_attribute(found.conv, "pads", pads_of(windows))
    for value in found.between:
        assert value.shape is not None, "the match knows its rank"
        sizes = [high - low if i == found.axis else s for i, s in enumerate(value.shape)]
        editor.set_shape(value, ir.Shape(sizes))
    for reader in found.readers:
        _shift(editor, reader, low)


def _cut(window: Window, low: int, high: int) -> tuple[Window, int, int]:
    """The window of the outputs from `low` to `high`, and the part of the input that it sees."""
    first = low * window.stride - window.begin
    last = (high - 1) * window.stride - window.begin + window.dilation * (window.kernel - 1) + 1
    start, end = min(max(first, 0), window.size - 1), max(min(last, window.size), 1)
    smaller = replace(window, size=end - start, begin=start - first, end=last - end)
    return smaller, start, end


def _slice_input(editor: Editor, found: _Unused, start: int, end: int) -> None:
    conv, site = found.conv, site_of(found.conv)
    source = conv.inputs[0]
    assert source is not None, "the match knows its shape"
    assert source.shape is not None, "the match knows its shape"
    operands: list[ir.Value] = [source]
    for role, number in (("start", start), ("end", end), ("axis", found.axis)):
        name = f"{site}/unused_slice/{role}"
        while name in editor.graph.initializers:
            name += "+"
        operands.append(editor.initializer(name, np.array([number], np.int64)))
    made = new_node("Slice", operands, output=f"{site}/unused_slice")
    sizes = [end - start if i == found.axis else s for i, s in enumerate(source.shape)]
    made.outputs[0].shape, made.outputs[0].type = ir.Shape(sizes), source.type
    editor.insert([made], before=conv)
    editor.set_input(conv, 0, made.outputs[0])


def _shift(editor: Editor, reader: _Reader, low: int) -> None:
    """Let a slice take the same elements of the shorter output; `drop_dead` drops idle ones."""
    node = reader.node
    for index, number in ((1, reader.start - low), (2, reader.end - low)):
        numbers = np.array(array_of(node.inputs[index]))
        numbers[reader.place] = number
        set_constant(editor, node, index, f"{site_of(node)}/unused_slice/{index}", numbers)


PLUGIN = LocalRule(
    name="unused_slice", roots=frozenset({"Conv"}), match=_match, rewrite=_rewrite, opset=10
)
