"""Integer codes in torch, with gradients: QuantizeLinear, DequantizeLinear, and trained weights.

Codes are kept as floats that hold whole numbers, so that a gradient passes: rounding counts as if
it were not there, and what is clipped off does not move ("Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference", Jacob et al., CVPR 2018, section 3, with
the estimator of Bengio et al. 2013). The weight behind the codes is trained in the unit of the
weight and rounded anew at every step; scales and zero points stay what calibration found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.local_rule import integer
from edgeopt.transforms.repair._torch import torch

Array = npt.NDArray[Any]
Tensors = Sequence[Any]
_DEFAULT = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """A constant of integer codes that stands for float weights.

    Args:
        scale: In the shape that it is multiplied in.
        zero: As `scale`.
        dtype: Of the codes.
    """

    scale: Array
    zero: Array
    dtype: np.dtype[Any]

    def decoded(self, codes: Array) -> Array:
        """The weights."""
        return (codes.astype(np.float32) - self.zero) * self.scale

    def encoded(self, weights: Array) -> Array:
        """The nearest codes."""
        limits = np.iinfo(self.dtype)
        codes = np.rint(weights.astype(np.float64) / self.scale) + self.zero
        return np.clip(codes, limits.min, limits.max).astype(self.dtype)

    def rounded(self, weights: Any) -> Any:
        """Codes of weights that are trained, as floats."""
        limits = np.iinfo(self.dtype)
        scale, zero = (torch().from_numpy(np.array(a)) for a in (self.scale, self.zero))
        return _straight(weights / scale, zero, float(limits.min), float(limits.max))


def coded_weights(
    graph: ir.Graph, trained: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, Coded]]:
    """Names of integer initializers that a DequantizeLinear makes a trained operand of.

    Args:
        graph: Sorted.
        trained: Operator to the places of operands that are trained.
    """
    for node in graph:
        for index in trained.get(node.op_type, ()):
            value = node.inputs[index] if index < len(node.inputs) else None
            made = None if value is None else value.producer()
            if made is None or made.op_type != "DequantizeLinear" or made.inputs[0] is None:
                continue
            codes = array_of(made.inputs[0])
            if not made.inputs[0].is_initializer() or codes is None or codes.dtype.kind not in "iu":
                continue
            scale, zero = (array_of(v) for v in (*made.inputs, None)[1:3])
            if scale is None or integer(made, "block_size", 0):
                continue
            zero = np.zeros_like(scale) if zero is None else zero.astype(np.float32)
            axis = integer(made, "axis", 1)
            yield (
                made.inputs[0].name or "",
                Coded(
                    scale=_beside(scale.astype(np.float32), codes.ndim, axis),
                    zero=_beside(np.asarray(zero, np.float32), codes.ndim, axis),
                    dtype=codes.dtype,
                ),
            )


def holds_codes(graph: ir.Graph) -> bool:
    """Whether values are rounded to codes anywhere: a result may then be off by a step of them."""
    return any(node.op_type == "QuantizeLinear" for node in graph)


def quantize(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    """Codes as floats."""
    x, scale, *more = inputs
    zero = more[0] if more else None
    given = integer(node, "output_dtype", 0)
    dtype = ir.DataType(given).numpy() if given else _DEFAULT
    limits = np.iinfo(dtype if zero is None else _numpy_dtype(zero))
    axis = integer(node, "axis", 1)
    scale = _beside(scale, x.ndim, axis)
    zero = (
        torch().zeros_like(scale) if zero is None else _beside(zero.to(scale.dtype), x.ndim, axis)
    )
    return (_straight(x / scale, zero, float(limits.min), float(limits.max)),)


def dequantize(node: ir.Node, inputs: Tensors) -> tuple[Any, ...]:
    """Codes, floats or integers, back to values."""
    codes, scale, *more = inputs
    axis = integer(node, "axis", 1)
    made = codes.to(scale.dtype)
    if more and more[0] is not None:
        made = made - _beside(more[0].to(scale.dtype), codes.ndim, axis)
    return (made * _beside(scale, codes.ndim, axis),)


def _straight(ratio: Any, zero: Any, low: float, high: float) -> Any:
    """Whole numbers within bounds; the gradient is that of the clip alone."""
    inside = torch().clamp(ratio + zero, low, high)
    codes = torch().clamp(torch().round(ratio) + zero, low, high)
    return inside + (codes - inside).detach()


def _beside(one: Any, rank: int, axis: int) -> Any:
    """A number a channel, in the shape that broadcasts along the axis."""
    if one.ndim != 1 or rank < 1 or one.shape[0] == 1:
        return one.reshape(()) if one.ndim == 1 and one.shape[0] == 1 else one
    shape = [1] * rank
    shape[axis % rank] = one.shape[0]
    return one.reshape(shape)


def _numpy_dtype(tensor: Any) -> np.dtype[Any]:
    return np.dtype(str(tensor.dtype).rpartition(".")[2])
