"""Conditions that several rules ask for, each with the reason that people read."""

import math
from typing import Any

import numpy as np

from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Tensor

HALF_UP = ("float32", "float16")
"""Precisions that activations have kernels for."""


def require_pointwise(conv: Node, weight: Const) -> None:
    """Ask that a Conv is a matrix product at every position.

    Kernel 1, stride 1, no padding, one group. Dilation means nothing at kernel 1, and SAME pads
    nothing at kernel 1 and stride 1.

    Raises:
        Refused: It is not.
    """
    require(all(size == 1 for size in weight.shape[2:]), "the kernel is larger than 1")
    require(all(step == 1 for step in conv.strides), "the stride is not 1")
    require(not any(conv.pads), "there is padding")
    require(conv.group == 1, "it has groups")


def require_inside(resize: Node) -> None:
    """Ask that every pixel that a Resize makes comes from pixels that are there.

    Raises:
        Refused: It may crop, and then positions outside have a value of their own.
    """
    outside = resize.coordinate_transformation_mode == "tf_crop_and_resize"
    require(not outside, "positions outside have a value of their own")


def require_average(resize: Node) -> None:
    """Ask that every pixel that a Resize makes is a mean of pixels, the same for all channels.

    Raises:
        Refused: It is not.
    """
    require(resize.mode in ("nearest", "linear"), "it does not average pixels")
    require_inside(resize)


def require_growth(small: Tensor, large: Tensor) -> None:
    """Ask that planes have more pixels behind a Resize than before it.

    Raises:
        Refused: They have not, or a size is free.
    """
    before, after = (
        math.prod(each.size(axis) for axis in range(2, each.rank)) for each in (small, large)
    )
    require(before < after, "the planes do not grow")


def require_kernel_for(value: Tensor) -> None:
    """Ask for a precision that activations have kernels for.

    Raises:
        Refused: It is another one.
    """
    require(value.dtype in HALF_UP, f"no kernel for {_TYPES.get(value.dtype, value.dtype)}")


_TYPES = {"float64": "DOUBLE"}


def require_factors(norm: Node, scale: Const, variance: Const) -> None:
    """Ask that a BatchNormalization multiplies every channel by a number that is known.

    Raises:
        Refused: It is in training mode, or a factor is not finite.
    """
    training = bool(norm.attrs.get("training_mode", 0))
    require(not training, "it normalises with the statistics of the batch")
    spread = np.sqrt(np.maximum(variance.array().astype(np.float64) + norm.epsilon, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        finite = np.isfinite(scale.array() / spread).all()
    require(bool(finite), "a variance is negative or not finite")


def require_not_wider(operand: Const, value: Tensor, reason: str) -> None:
    """Ask that an operand beside a value leaves its shape as it is.

    Raises:
        Refused: It has more axes, or more than one element where the value has one.
    """
    pairs = zip(operand.shape[::-1], value.shape[::-1], strict=False)
    fits = operand.rank <= value.rank and all(one in (1, other) for one, other in pairs)
    require(fits, reason)


def integers_of(node: Node, name: str, given: Const | None) -> tuple[int, ...]:
    """Axes or sizes, which older operator sets have as attribute and newer ones as input.

    Empty where they are left out.
    """
    if given is not None:
        return tuple(int(number) for number in given.array().reshape(-1))
    written: Any = node.attrs.get(name, ())
    return tuple(int(number) for number in written)


def number_of(node: Node, name: str, default: float) -> float:
    """A number attribute of an operator that the onnx package does not know."""
    written: Any = node.attrs.get(name, default)
    return float(written)


def word_of(node: Node, name: str) -> str:
    """A text attribute of such an operator; empty where it is left out."""
    return str(node.attrs.get(name, ""))


def require_one_per_channel(constant: Const, weight: Const) -> None:
    """Ask that a constant behind a convolution holds one number, or one a channel.

    Raises:
        Refused: It varies over positions or over the batch, or widens the result.
    """
    shape = (1,) * (weight.rank - constant.rank) + constant.shape
    fits = len(shape) == weight.rank and shape[1] in (1, weight.shape[0])
    fits = fits and math.prod(shape) == shape[1]
    require(fits, "the constant is not one number a channel")
