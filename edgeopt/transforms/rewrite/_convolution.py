"""What the rewrite rules ask about convolutions."""

from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
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
