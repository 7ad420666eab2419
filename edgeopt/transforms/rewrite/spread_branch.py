"""Channels that are the same at every position, convolved at one position.

    Conv1x1(Concat(x, Spread(g)), [A B])  =  Conv1x1(x, A) + Conv1x1(g, B)

Spread is a Resize, Expand or Tile of planes of one pixel: the image pooling of ASPP, a global
context beside local features. The sum is broadcast.

It must not fire with a larger kernel, stride, padding or groups, where something else reads the
Concat, or where everything that is joined is spread.
Imperative, since the number of inputs of the Concat is open. ONNX Runtime does nothing of it;
measured 1.4.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, refuse
from edgeopt.transforms.rewrite._around import Steps, maker
from edgeopt.transforms.rewrite._convolution import constants_of, why_not_pointwise

_SPREADING = frozenset({"Resize", "Expand", "Tile"})
_PLANES = 4


@dataclass(frozen=True, slots=True)
class _Spread:
    conv: ir.Node
    joined: tuple[ir.Value, ...]
    sizes: tuple[int, ...]
    pixels: tuple[ir.Value | None, ...]
    """For each that is joined the pixel that it is spread from, or None."""
    weight: npt.NDArray[Any]


def _pixel(value: ir.Value) -> ir.Value | None:
    """The planes of one pixel behind a value that repeats them."""
    node = value.producer()
    source = None if node is None else node.inputs[0]
    if node is None or node.domain or node.op_type not in _SPREADING or source is None:
        return None
    if source.shape is None or value.shape is None or len(source.shape) != _PLANES:
        return None
    if any(size != 1 for size in source.shape[2:]) or source.shape[1] != value.shape[1]:
        return None
    if source.shape[0] != value.shape[0] and not _keeps_batch(node):
        return None
    # Beyond the borders there is a number of its own.
    mode = node.attributes.get("coordinate_transformation_mode")
    cropped = mode is not None and mode.as_string() == "tf_crop_and_resize"
    cubic = node.attributes.get("mode")
    return None if cropped or (cubic is not None and cubic.as_string() == "cubic") else source


def _keeps_batch(node: ir.Node) -> bool:
    """Whether a Resize scales the batch by 1: inference renames a free batch behind it."""
    scales = array_of(input_of(node, 2)) if node.op_type == "Resize" else None
    return scales is not None and scales.size > 0 and scales[0] == 1


def _match(conv: ir.Node) -> _Spread | Rejection:
    concat = maker(conv, 0, "Concat")
    constants = constants_of(conv)
    if concat is None:
        return refuse("it does not read a Concat of its own", conv)
    if isinstance(constants, Rejection):
        return constants
    reason = why_not_pointwise(conv, constants[0])
    if reason is not None:
        return reason
    joined = tuple(value for value in concat.inputs if value is not None)
    shapes = [value.shape for value in joined]
    sizes = [shape[1] for shape in shapes if shape is not None and len(shape) == _PLANES]
    known = [size for size in sizes if isinstance(size, int)]
    if integer(concat, "axis", 0) not in {1, 1 - _PLANES} or len(known) != len(joined):
        return refuse("it does not join known channels of planes", concat)
    pixels = tuple(_pixel(value) for value in joined)
    alone = [value for value, pixel in zip(joined, pixels, strict=True) if pixel is None]
    if len(alone) == len(joined) or not alone:
        return refuse("none, or everything, is spread from one pixel", concat)
    return _Spread(conv, joined, tuple(known), pixels, constants[0])


def _rewrite(editor: Editor, found: _Spread) -> None:
    conv = found.conv
    steps = Steps(editor, "spread_branch", conv)
    shape = conv.outputs[0].shape
    kept: list[ir.Value] = []
    kept_rows: list[int] = []
    pixels: list[tuple[ir.Value, list[int]]] = []
    start = 0
    for value, size, pixel in zip(found.joined, found.sizes, found.pixels, strict=True):
        rows = list(range(start, start + size))
        start += size
        if pixel is None:
            kept.append(value)
            kept_rows += rows
        else:
            pixels.append((pixel, rows))
    local = kept[0]
    if len(kept) > 1:
        first = kept[0].shape
        sizes = None if first is None else (first[0], len(kept_rows), *first[2:])
        local = steps.add("local", "Concat", kept, sizes, axis=1)
    weight = steps.constant("weight", found.weight[:, kept_rows])
    total = steps.add("positions", "Conv", [local, weight], shape)
    for index, (pixel, rows) in enumerate(pixels):
        own = steps.constant(f"weight_{index}", found.weight[:, rows])
        bias = input_of(conv, 2) if index == 0 else None
        inputs = [pixel, own, *([] if bias is None else [bias])]
        sizes = None if pixel.shape is None else (pixel.shape[0], len(found.weight), 1, 1)
        point = steps.add(f"pixel_{index}", "Conv", inputs, sizes)
        total = steps.add(f"sum_{index}", "Add", [total, point], shape)
    steps.finish()


PLUGIN = LocalRule(name="spread_branch", roots=frozenset({"Conv"}), match=_match, rewrite=_rewrite)
