"""What the rewrite rules ask about convolutions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import input_of, integer, integers, refuse


def constants_of(
    node: ir.Node,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None] | Rejection:
    """Weight and bias (None where it is left out) of a Conv, ConvTranspose or Gemm."""
    weight, bias = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    if weight is None:
        return refuse("the weight is no constant", node)
    if bias is None and input_of(node, 2) is not None:
        return refuse("the bias is no constant", node)
    return weight, bias


def why_not_pointwise(conv: ir.Node, weight: npt.NDArray[Any]) -> Rejection | None:
    """Why a Conv is not a matrix product at every position; None where it is.

    Kernel 1, stride 1, no padding, one group. Dilation means nothing at kernel 1.
    """
    if any(size != 1 for size in weight.shape[2:]):
        return refuse("the kernel is larger than 1", conv)
    if any(step != 1 for step in integers(conv, "strides")):
        return refuse("the stride is not 1", conv)
    if any(integers(conv, "pads")):
        return refuse("there is padding", conv)
    if integer(conv, "group", 1) != 1:
        return refuse("it has groups", conv)
    # SAME pads nothing at kernel 1 and stride 1, so that every auto_pad is fine here.
    return None


def convolution_and_row(
    root: ir.Node,
) -> tuple[ir.Node, npt.NDArray[Any], npt.NDArray[Any] | None, npt.NDArray[np.float64]] | Rejection:
    """Around an Add or Mul of a convolution with one number a channel, or with one for all.

    Returns:
        The Conv whose only user the node is, its weight and bias, and the numbers [channels].
    """
    left, right = input_of(root, 0), input_of(root, 1)
    constant = array_of(right)
    if constant is None:
        left, constant = right, array_of(left)
    if constant is None or left is None:
        return refuse("neither operand is a constant", root)
    conv = left.producer()
    if conv is None or conv.op_type != "Conv" or conv.domain or conv.graph is not root.graph:
        return refuse("it does not follow a convolution", root)
    if sole_user(left) is not root:
        return refuse("something else reads the convolution", conv)
    constants = constants_of(conv)
    if isinstance(constants, Rejection):
        return constants
    weight, bias = constants
    row = _per_channel(constant, weight)
    if row is None:
        return refuse("the constant is not one number a channel", root)
    return conv, weight, bias, row


def _per_channel(
    constant: npt.NDArray[Any], weight: npt.NDArray[Any]
) -> npt.NDArray[np.float64] | None:
    """[channels]; None where the constant is of another kind."""
    channels, rank = weight.shape[0], weight.ndim
    if constant.ndim > rank:
        return None
    full = constant.reshape((1,) * (rank - constant.ndim) + constant.shape)
    if full.shape[1] not in (1, channels) or full.size != full.shape[1]:
        return None
    return np.broadcast_to(full.reshape(-1).astype(np.float64), (channels,))
