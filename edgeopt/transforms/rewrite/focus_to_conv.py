"""A convolution on every second pixel four times over, as one of twice the kernel and stride.

    Conv k x k (Concat(x[0::2, 0::2], x[1::2, 0::2], x[0::2, 1::2], x[1::2, 1::2]), W)
        =  Conv 2k x 2k (x, W', stride 2, pads doubled)

W' is W with its taps laid between each other. It is the Focus block of YOLOv5, whose later versions
are exported in the second form.
It must not fire where something else reads the parts, where a part is missing or stands twice,
with a stride, dilation or groups of the convolution, or where height or width is odd or not known.
Imperative, since parts come in any order. A choice: with ONNX Runtime's blocked layout measured
1.23, without it 0.80 of the speed; version 1.32 makes a SpaceToDepth of the slices by itself.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, refuse
from edgeopt.transforms.rewrite._around import Steps, maker, sizes_of
from edgeopt.transforms.rewrite._convolution import constants_of
from edgeopt.transforms.rewrite._selection import selection_of
from edgeopt.transforms.rewrite._windows import Window, windows_of

_BLOCK = 2
_PLANES = 4


@dataclass(frozen=True, slots=True)
class _Focus:
    conv: ir.Node
    source: ir.Value
    windows: tuple[Window, ...]
    weight: npt.NDArray[Any]


def _part(concat: ir.Node, index: int) -> tuple[ir.Value, tuple[int, int]] | None:
    """What a part is cut from, and the row and column that it starts at."""
    found: dict[int, int] = {}
    node = maker(concat, index, "Slice")
    for _ in range(_BLOCK):
        source = None if node is None else node.inputs[0]
        selected = None if node is None else selection_of(node)
        sizes = sizes_of(source)
        if node is None or source is None or selected is None or sizes is None:
            return None
        part, start = selected[0], selected[0].indices[0]
        if start >= _BLOCK or part.indices != tuple(range(start, sizes[part.axis], _BLOCK)):
            return None
        found[part.axis] = start
        if len(found) == _BLOCK:
            whole = set(found) == {2, 3} and all(size % _BLOCK == 0 for size in _cut(node))
            return (source, (found[2], found[3])) if whole else None
        node = source.producer()
    return None


def _cut(node: ir.Node) -> tuple[int, ...]:
    """Height and width of what the first slice reads."""
    return (sizes_of(node.inputs[0]) or (0,) * _PLANES)[2:]


def _match(conv: ir.Node) -> _Focus | Rejection:
    concat, windows, constants = maker(conv, 0, "Concat"), windows_of(conv), constants_of(conv)
    if concat is None or integer(concat, "axis", 0) not in {1, 1 - _PLANES}:
        return refuse("it does not read joined channels of its own", conv)
    if isinstance(windows, Rejection):
        return windows
    if isinstance(constants, Rejection):
        return constants
    plain = all(w.stride == 1 and w.dilation == 1 for w in windows)
    if not plain or integer(conv, "group", 1) != 1 or len(windows) != _BLOCK:
        return refuse("it has a stride, dilation or groups", conv)
    parts = [_part(concat, index) for index in range(len(concat.inputs))]
    known = [part for part in parts if part is not None]
    places = [place for _, place in known]
    sources = {source for source, _ in known}
    if len(known) != len(parts) or len(set(places)) != _BLOCK**2 or len(places) != _BLOCK**2:
        return refuse("the parts are not every second pixel, each once", concat)
    if len(sources) != 1:
        return refuse("the parts are cut from different values", concat)
    return _Focus(conv, sources.pop(), windows, _spread(constants[0], places))


def _spread(weight: npt.NDArray[Any], places: list[tuple[int, int]]) -> npt.NDArray[Any]:
    made, joined, height, width = weight.shape
    given = joined // len(places)
    wide = np.zeros((made, given, _BLOCK * height, _BLOCK * width), weight.dtype)
    for index, (row, column) in enumerate(places):
        part = weight[:, index * given : (index + 1) * given]
        wide[:, :, row::_BLOCK, column::_BLOCK] = part
    return wide


def _rewrite(editor: Editor, found: _Focus) -> None:
    conv, windows = found.conv, found.windows
    steps = Steps(editor, "focus_to_conv", conv)
    bias = input_of(conv, 2)
    inputs = [found.source, steps.constant("weight", found.weight), *([bias] if bias else [])]
    steps.add(
        "conv",
        "Conv",
        inputs,
        conv.outputs[0].shape,
        kernel_shape=list(found.weight.shape[2:]),
        strides=[_BLOCK] * len(windows),
        pads=[_BLOCK * size for size in (*(w.begin for w in windows), *(w.end for w in windows))],
    )
    steps.finish()


PLUGIN = LocalRule(
    name="focus_to_conv", roots=frozenset({"Conv"}), match=_match, rewrite=_rewrite, opset=10
)
