"""What processors without VNNI do to sums of uint8 by int8 products, in numpy.

AVX2 and AVX-512 without VNNI multiply by VPMADDUBSW: the products of two neighbouring elements of
the reduction are added in 16 bits, and the sum saturates at 32767 and -32768. Everything after it
is exact in 32 bits. So the same integer model is right on one processor and wrong on another
(microsoft/onnxruntime issues 5849, 6004, 14642, 16105). Two neighbours whose weights lie within
+-63 never saturate (255 * 126 = 32130), nor do unsigned weights, which take another kernel.

Neighbours are those of the runtime's layouts: of a product along K, of a convolution along its
channels, then its columns and rows (it computes with the channels last). Depthwise convolutions
have kernels of their own, which do not saturate.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.data import Feed
from edgeopt.graph.editor import array_of
from edgeopt.graph.runtime import observe
from edgeopt.transforms.groups import name_of
from edgeopt.transforms.local_rule import integer, integers, word

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int32]
LOWEST, HIGHEST = -32768, 32767
_OPERANDS = {
    "QLinearConv": (0, 3),
    "QLinearMatMul": (0, 3),
    "QGemm": (0, 3),
    "ConvInteger": (0, 1),
    "MatMulInteger": (0, 1),
    "MatMulIntegerToFloat": (0, 1),
}
"""Where integer operators have the codes of the activation and of the weight."""
_FLOAT = frozenset({"Conv", "Gemm", "MatMul"})
_ROWS = 256
"""Rows of the reduction that are looked at in one sample, spread evenly over all of them."""
_PLACES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """A layer whose sums saturate on such a processor.

    Args:
        name: Of the value that it makes.
        operator: Its type.
        pairs: Sums of two products that were looked at.
        saturating: How many of them saturate.
    """

    name: str
    operator: str
    pairs: int
    saturating: int

    @property
    def share(self) -> float:
        """Of the pairs, 0 to 1."""
        return self.saturating / self.pairs if self.pairs else 0.0


@dataclass(frozen=True, slots=True)
class _Product:
    """An integer product: the activation's codes by name, the weight as [groups, K, N], and the
    kernel's sizes where it is a convolution."""

    node: ir.Node
    codes: str
    weight: Integers
    kernel: tuple[int, ...] = ()


def saturated(model: ir.Model, feeds: Iterable[Feed], *, rows: int = _ROWS) -> list[Saturated]:
    """Layers whose sums would saturate on these inputs, in graph order; exact layers left out.

    Args:
        model: Quantized; in QDQ form, in integer operators or dynamically.
        feeds: Inputs; a handful shows what there is to see.
        rows: At most so many rows of a layer's reduction are looked at in one sample.

    Raises:
        RuntimeFailure: The model does not run here.
    """
    products = [found for node in model.graph if (found := _product(node)) is not None]
    able = [one for one in products if _can_saturate(one.weight).any()]
    counts = {id(one): [0, 0] for one in able}
    if not able:
        return []
    for values in observe(model, [one.codes for one in able], feeds):
        for one in able:
            pairs, saturating = _counted(one, values[one.codes], rows)
            counts[id(one)][0] += pairs
            counts[id(one)][1] += saturating
    return [
        Saturated(
            name=name_of(one.node.outputs[0]),
            operator=one.node.op_type,
            pairs=counts[id(one)][0],
            saturating=counts[id(one)][1],
        )
        for one in able
        if counts[id(one)][1]
    ]


def saturating_product(activation: Array, weight: Array) -> Integers:
    """The product [M, N] of codes [M, K] (uint8) and [K, N] (int8), as such a processor sums it."""
    left, right = _even(activation.astype(np.int32), 1), _even(weight.astype(np.int32), 0)
    products = left[:, :, None] * right[None]
    pairs = products[:, 0::2] + products[:, 1::2]
    return np.clip(pairs, LOWEST, HIGHEST).sum(axis=1, dtype=np.int32)


def _counted(one: _Product, codes: Array, rows: int) -> tuple[int, int]:
    """Pairs that were looked at in one sample, and how many of them saturate."""
    unsigned = codes.astype(np.int32) + (128 if codes.dtype == np.int8 else 0)
    pairs = saturating = 0
    for matrix, weight in zip(_matrices(one, unsigned, rows), one.weight, strict=True):
        first, second = _even(matrix, 1)[:, 0::2], _even(matrix, 1)[:, 1::2]
        pairs += first.size * weight.shape[1]
        even = _even(weight, 0)
        # Few pairs of weights are large enough: only those are multiplied, some at a time.
        places = np.argwhere(_can_saturate(weight))
        for start in range(0, len(places), _PLACES):
            index, channel = places[start : start + _PLACES].T
            sums = first[:, index] * even[2 * index, channel]
            sums += second[:, index] * even[2 * index + 1, channel]
            saturating += int(np.count_nonzero((sums > HIGHEST) | (sums < LOWEST)))
    return pairs, saturating


def _can_saturate(weight: Integers) -> npt.NDArray[np.bool_]:
    """Pairs [..., K / 2, N] of weights that saturate with the largest activations."""
    even = _even(weight, -2)
    first, second = even[..., 0::2, :], even[..., 1::2, :]
    highest = 255 * (np.maximum(first, 0) + np.maximum(second, 0))
    lowest = 255 * (np.minimum(first, 0) + np.minimum(second, 0))
    return (highest > HIGHEST) | (lowest < LOWEST)


def _even(array: Integers, axis: int) -> Integers:
    """With zeros behind an odd reduction, as the kernels pad it."""
    if array.shape[axis] % 2 == 0:
        return array
    margin = [(0, 0)] * array.ndim
    margin[axis] = (0, 1)
    return np.pad(array, margin)


def _product(node: ir.Node) -> _Product | None:
    """The signed integer product that a node is, whatever form it has."""
    found = _codes(node)
    if found is None:
        return None
    codes, weight = found
    array = array_of(weight)
    # Unsigned weights take a kernel that adds in 32 bits.
    if codes.name is None or array is None or array.dtype != np.int8:
        return None
    if "Conv" in node.op_type:
        groups = integer(node, "group", 1)
        depthwise = array.shape[1] == 1 and array.shape[0] == groups > 1
        if array.ndim < 3 or depthwise:
            return None
        arranged = np.moveaxis(array, 1, -1).reshape(groups, array.shape[0] // groups, -1)
        arranged = arranged.transpose(0, 2, 1).astype(np.int32)
        return _Product(node, codes.name, arranged, array.shape[2:])
    if array.ndim != 2:
        return None
    arranged = (array.T if integer(node, "transB", 0) else array)[None]
    return _Product(node, codes.name, arranged.astype(np.int32))


def _codes(node: ir.Node) -> tuple[ir.Value, ir.Value] | None:
    """The codes of the activation and of the weight."""
    if node.op_type in _OPERANDS:
        indices = _OPERANDS[node.op_type]
        found = [node.inputs[index] for index in indices if index < len(node.inputs)]
    elif node.op_type in _FLOAT and not node.domain and len(node.inputs) > 1:
        makers = [None if value is None else value.producer() for value in node.inputs[:2]]
        found = [
            made.inputs[0] if made is not None and made.op_type == "DequantizeLinear" else None
            for made in makers
        ]
    else:
        return None
    values = [value for value in found if value is not None]
    return (values[0], values[1]) if len(values) == 2 else None


def _matrices(one: _Product, codes: Integers, rows: int) -> Iterator[Integers]:
    """The activation as one matrix [rows, K] a group."""
    if "Conv" not in one.node.op_type:
        matrix = codes.T if integer(one.node, "transA", 0) else codes
        yield _some(matrix.reshape(-1, matrix.shape[-1]), rows)
        return
    groups = len(one.weight)
    windows = _windows(one, codes)
    width = codes.shape[1] // groups
    for group in range(groups):
        part = windows[..., group * width : (group + 1) * width]
        yield _some(part.reshape(-1, one.weight.shape[1]), rows)


def _windows(one: _Product, codes: Integers) -> Integers:
    """What a convolution sees [N, places..., taps..., C]."""
    node, kernel = one.node, one.kernel
    steps = integers(node, "strides") or (1,) * len(kernel)
    spread = integers(node, "dilations") or (1,) * len(kernel)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, spread, strict=True)]
    margin = _margins(node, codes.shape[2:], reach, steps)
    padded = np.pad(codes, [(0, 0), (0, 0), *margin], constant_values=_zero(node))
    axes = tuple(range(2, codes.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(padded, tuple(reach), axes)
    places = tuple(slice(None, None, step) for step in steps)
    taps = tuple(slice(None, None, step) for step in spread)
    seen = seen[(slice(None), slice(None), *places, *taps)]
    return np.moveaxis(seen, 1, -1)


def _margins(
    node: ir.Node, sizes: Sequence[int], reach: Sequence[int], steps: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding before and after, an axis."""
    how = word(node, "auto_pad", "NOTSET")
    given = integers(node, "pads")
    if how in ("SAME_UPPER", "SAME_LOWER"):
        found: list[tuple[int, int]] = []
        for size, length, step in zip(sizes, reach, steps, strict=True):
            whole = max((-(-size // step) - 1) * step + length - size, 0)
            small, large = whole // 2, whole - whole // 2
            found.append((small, large) if how == "SAME_UPPER" else (large, small))
        return found
    if how == "VALID" or not given:
        return [(0, 0)] * len(sizes)
    return list(zip(given[: len(sizes)], given[len(sizes) :], strict=True))


def _zero(node: ir.Node) -> int:
    """The code of 0.0 that a convolution is padded with, as if unsigned."""
    if node.op_type == "QLinearConv":
        value = node.inputs[2]
    elif node.op_type == "ConvInteger":
        value = node.inputs[2] if len(node.inputs) > 2 else None
    else:
        source = node.inputs[0]
        made = None if source is None else source.producer()
        value = None if made is None or len(made.inputs) < 3 else made.inputs[2]
    zero = array_of(value)
    if zero is None or not zero.size:
        return 0
    return int(zero.reshape(-1)[0]) + (128 if zero.dtype == np.int8 else 0)


def _some(matrix: Integers, rows: int) -> Integers:
    """Rows spread evenly over a matrix."""
    if len(matrix) <= rows:
        return matrix
    return matrix[np.linspace(0, len(matrix) - 1, rows).astype(np.int64)]


def sentences(found: Sequence[Saturated], where: str) -> list[str]:
    """What a reader of a result must know, the worst layer first; at most three sentences."""
    worst = sorted(found, key=lambda one: -one.share)[:3]
    return [
        f"{one.operator} {one.name!r} would saturate 16-bit sums in {100 * one.share:.3g} % of "
        f"its pairs on {where}: give its weights 7 bits, or make them unsigned"
        for one in worst
    ]
