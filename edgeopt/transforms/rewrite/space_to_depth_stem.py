"""A first convolution of stride 2 on few channels, as one of stride 1 on four times as many.

    Conv(x, W, stride 2)  =  Conv(D(x), W', stride 1)

D puts every 2x2 block of pixels into channels: with channels last, pairs of pixels lie beside
each other, and one Transpose in four dimensions moves them (one in six on single bytes takes
five times longer; the other two are those of the integer layout). Tap t of W reads
pixel 2o + t - pad; with t - pad = 2u + a it is tap u on the channels of parity a in W', whose
other taps are 0: 7x7 on 3 channels becomes 4x4 on 12.

It must not fire on more than 4 input channels (they fill vectors as they are), on odd or free
heights and widths, with other strides than 2, with dilations, groups or `auto_pad`, or where
weights are no constants.
In float it loses (0.90 times the speed of a ResNet-50); integer kernels gain by it (a 7x7 stem
took 0.69 ms instead of 1.56), so that it is a decision of its own.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse, set_constant, site_of
from edgeopt.transforms.rewrite._convolution import constants_of
from edgeopt.transforms.rewrite._windows import Window, pads_of, windows_of

_MOST_CHANNELS = 4
_PLANE = 2
_BLOCK = 2
_TO_LAST, _TO_DEPTH, _TO_FIRST = (0, 2, 3, 1), (0, 2, 1, 3), (0, 3, 1, 2)
Sizes = tuple[int | ir.SymbolicDim | None, ...]


@dataclass(frozen=True, slots=True)
class _Stem:
    conv: ir.Node
    source: ir.Value
    weight: npt.NDArray[Any]
    windows: tuple[Window, ...]


def _match(conv: ir.Node) -> _Stem | Rejection:
    windows, constants = windows_of(conv), constants_of(conv)
    if isinstance(windows, Rejection):
        return windows
    if isinstance(constants, Rejection):
        return constants
    weight, source = constants[0], conv.inputs[0]
    if source is None or len(windows) != _PLANE or integer(conv, "group", 1) != 1:
        return refuse("it is no plain convolution of two axes", conv)
    if weight.shape[1] > _MOST_CHANNELS:
        return refuse(f"it has more than {_MOST_CHANNELS} input channels", conv)
    if any(window.stride != _BLOCK or window.dilation != 1 for window in windows):
        return refuse("its stride is not 2, or it is dilated", conv)
    if any(window.size % _BLOCK for window in windows):
        return refuse("height or width is odd", conv)
    if all(window.kernel == 1 for window in windows):
        return refuse("it has one tap", conv)
    halved = tuple(_halved(window) for window in windows)
    if any(window.begin < 0 or window.end < 0 for window in halved):
        return refuse("its padding does not reach", conv)
    return _Stem(conv, source, _spread(weight, windows, halved), halved)


def _halved(window: Window) -> Window:
    """The same axis after two pixels became one: as many outputs at stride 1."""
    first = -window.begin // _BLOCK
    last = (window.kernel - 1 - window.begin) // _BLOCK
    kernel, size = last - first + 1, window.size // _BLOCK
    end = window.made - 1 + kernel - size + first
    return replace(window, size=size, kernel=kernel, stride=1, begin=-first, end=end)


def _spread(
    weight: npt.NDArray[Any], windows: tuple[Window, ...], halved: tuple[Window, ...]
) -> npt.NDArray[Any]:
    """[out, in, kh, kw] to [out, in x 2 x 2, kh', kw']."""
    made, given = weight.shape[:2]
    sizes = [window.kernel for window in halved]
    wide = np.zeros((made, _BLOCK, _BLOCK, given, *sizes), weight.dtype)
    rows, columns = (
        [divmod(tap - window.begin, _BLOCK) for tap in range(window.kernel)] for window in windows
    )
    for row, (u, a) in enumerate(rows):
        for column, (v, b) in enumerate(columns):
            place = u + halved[0].begin, v + halved[1].begin
            wide[:, a, b, :, *place] = weight[:, :, row, column]
    return wide.reshape(made, given * _BLOCK * _BLOCK, *sizes)


def _rewrite(editor: Editor, stem: _Stem) -> None:
    conv, site = stem.conv, f"{site_of(stem.conv)}/space_to_depth_stem"
    channels = stem.weight.shape[1]
    height, width = (window.size for window in stem.windows)
    batch = None if stem.source.shape is None else stem.source.shape[0]
    strip = channels // _BLOCK
    rows = batch * height if isinstance(batch, int) else None
    blocks = editor.initializer(f"{site}/split", np.array([-1, _BLOCK, width, strip], np.int64))
    merged = np.array([-1, height, width, channels], np.int64)
    pixels = editor.initializer(f"{site}/merge", merged)
    steps: list[ir.Node] = []

    def step(operator: str, extra: list[ir.Value], role: str, shape: Sizes, **attributes: Any):
        source = steps[-1].outputs[0] if steps else stem.source
        inputs, output = [source, *extra], f"{site}{role}"
        steps.append(new_node(operator, inputs, output=output, attributes=attributes))
        steps[-1].outputs[0].shape, steps[-1].outputs[0].type = ir.Shape(shape), stem.source.type

    flat = (batch, _BLOCK * height, _BLOCK * width, channels // _BLOCK**2)
    step("Transpose", [], "/pixels", flat, perm=_TO_LAST)
    step("Reshape", [blocks], "/blocks", (rows, _BLOCK, width, strip))
    step("Transpose", [], "/moved", (rows, width, _BLOCK, strip), perm=_TO_DEPTH)
    step("Reshape", [pixels], "/depth", (batch, height, width, channels))
    step("Transpose", [], "", (batch, channels, height, width), perm=_TO_FIRST)
    editor.insert(steps, before=conv)
    editor.set_input(conv, 0, steps[-1].outputs[0])
    set_constant(editor, conv, 1, f"{site}/weight", stem.weight)
    if "kernel_shape" in conv.attributes:
        editor.set_attribute(conv, "kernel_shape", stem.weight.shape[2:])
    editor.set_attribute(conv, "strides", (1, 1))
    editor.set_attribute(conv, "pads", pads_of(stem.windows))


PLUGIN = LocalRule(
    name="space_to_depth_stem",
    roots=frozenset({"Conv"}),
    match=_match,
    rewrite=_rewrite,
    opset=5,
)
