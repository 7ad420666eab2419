"""Where the windows of a convolution lie: sizes of every spatial axis."""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import input_of, integers, refuse, word
from edgeopt.transforms.rewrite._convolution import constants_of

_FIRST_SPATIAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One spatial axis of a convolution.

    Args:
        size: Of the input.
        kernel: Taps.
        stride: Step of the windows.
        dilation: Step of the taps.
        begin: Padding before.
        end: Padding behind.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def made(self) -> int:
        """Number of windows: the size of the output."""
        reach = self.dilation * (self.kernel - 1) + 1
        return (self.size + self.begin + self.end - reach) // self.stride + 1

    def read(self, tap: int) -> bool:
        """Whether a tap ever reads an element that is no padding."""
        first = tap * self.dilation - self.begin
        return any(0 <= first + i * self.stride < self.size for i in range(self.made))


def windows_of(conv: ir.Node) -> tuple[Window, ...] | Rejection:
    """The spatial axes of a Conv with constant weights, known sizes and explicit padding."""
    constants = constants_of(conv)
    if isinstance(constants, Rejection):
        return constants
    source = input_of(conv, 0)
    kernel = constants[0].shape[_FIRST_SPATIAL:]
    shape = None if source is None else source.shape
    if shape is None or len(shape) != len(kernel) + _FIRST_SPATIAL:
        return refuse("the shape of its input is not known", conv)
    sizes = [size for size in shape[_FIRST_SPATIAL:] if isinstance(size, int)]
    if len(sizes) != len(kernel):
        return refuse("a spatial size is free", conv)
    if word(conv, "auto_pad", "NOTSET") != "NOTSET":
        return refuse("its padding is not explicit", conv)
    rank = len(kernel)
    pads = integers(conv, "pads") or (0,) * (2 * rank)
    strides = integers(conv, "strides") or (1,) * rank
    dilations = integers(conv, "dilations") or (1,) * rank
    return tuple(
        Window(
            size=sizes[axis],
            kernel=int(kernel[axis]),
            stride=strides[axis],
            dilation=dilations[axis],
            begin=pads[axis],
            end=pads[axis + rank],
        )
        for axis in range(rank)
    )


def pads_of(windows: tuple[Window, ...]) -> tuple[int, ...]:
    """As the attribute `pads` wants it: all beginnings, then all ends."""
    return (*(window.begin for window in windows), *(window.end for window in windows))
