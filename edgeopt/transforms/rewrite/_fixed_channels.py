"""Channels whose value does not depend on the input: what weights of zero leave.

One forward pass: for each value the axis of its channels and a number a channel, NaN where the
input decides. Such a channel begins where all weights that make it are zero, and goes on through
what keeps channels apart; an operator without an entry here ends it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import floating, input_of, integer, integers, word
from edgeopt.transforms.rewrite._batchnorm import affine, normalises_batch
from edgeopt.transforms.rewrite._convolution import constants_of
from edgeopt.transforms.rules.facts import attributes_of
from edgeopt.transforms.rules.folding import evaluate

Floats = npt.NDArray[np.float64]
_PLANES = 3
_FIRST_SPATIAL = 2


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is known of a value.

    Args:
        axis: Of its channels.
        numbers: One a channel; NaN where it depends on the input.
    """

    axis: int
    numbers: Floats


Known = Mapping[ir.Value, Fixed]


def fixed_channels(graph: ir.Graph) -> dict[ir.Value, Fixed]:
    """Every value of a sorted graph that has a fixed channel."""
    found: dict[ir.Value, Fixed] = {}
    version = graph.opset_imports.get("", 1)
    for node in graph:
        rule = None if node.domain else _RULES.get(node.op_type)
        if rule is None or not node.outputs or not _has_rank(node.outputs[0]):
            continue
        with np.errstate(all="ignore"):
            made = rule(node, found, version)
        if made is not None and np.isfinite(made.numbers).any():
            # What is not finite is as good as unknown: it may become NaN behind.
            numbers = np.where(np.isfinite(made.numbers), made.numbers, np.nan)
            found[node.outputs[0]] = Fixed(made.axis, numbers)
    return found


def pads_nothing(node: ir.Node) -> bool:
    """Whether the windows of a convolution or pooling never reach over the border."""
    return not any(integers(node, "pads")) and word(node, "auto_pad", "NOTSET") in (
        "NOTSET",
        "VALID",
    )


def sums_of(node: ir.Node, weight: npt.NDArray[Any]) -> Floats:
    """What a channel of ones adds to each output of a layer that does not pad: [out, in]."""
    wide = weight.astype(np.float64)
    if node.op_type == "Conv":
        return wide.reshape(*wide.shape[:2], -1).sum(axis=2)
    if node.op_type == "Gemm":
        return (wide if integer(node, "transB", 0) else wide.T) * floating(node, "alpha", 1.0)
    return wide.T


def _has_rank(value: ir.Value) -> bool:
    return value.shape is not None and value.dtype is not None and value.dtype.is_floating_point()


def _rank(value: ir.Value | None) -> int:
    return 0 if value is None or value.shape is None else len(value.shape)


def _of(value: ir.Value | None, known: Known, axis: int, size: int) -> Floats:
    """What is known along an axis of a value; all NaN where that is nothing."""
    held = None if value is None else known.get(value)
    if held is None or held.axis != axis or len(held.numbers) != size:
        return np.full(size, np.nan)
    return held.numbers


def _through(sums: Floats, reads: npt.NDArray[np.bool_], given: Floats, pads: bool) -> Floats:
    """Outputs [out] of weights [out, in] of which some are read; NaN where an open one counts."""
    open_ = np.isnan(given) | (pads & (given != 0))
    return np.where(reads[:, open_].any(axis=1), np.nan, sums @ np.where(open_, 0.0, given))


def _conv(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    constants = constants_of(node)
    if isinstance(constants, Rejection) or constants[0].ndim < _PLANES:
        return None
    weight, bias = constants
    groups, size = integer(node, "group", 1), int(weight.shape[1])
    given = _of(input_of(node, 0), known, 1, size * groups).reshape(groups, -1)
    sums = sums_of(node, weight)
    reads = (weight != 0).reshape(*weight.shape[:2], -1).any(axis=2)
    pads, per = not pads_nothing(node), len(sums) // groups
    rows = [slice(i * per, (i + 1) * per) for i in range(groups)]
    made = [_through(sums[row], reads[row], given[i], pads) for i, row in enumerate(rows)]
    return Fixed(1, np.concatenate(made) + (0 if bias is None else bias.astype(np.float64)))


def _conv_transpose(node: ir.Node, known: Known, version: int) -> Fixed | None:
    """Windows overlap and leave gaps: only zeros go through."""
    del version
    constants = constants_of(node)
    if isinstance(constants, Rejection) or constants[0].ndim < _PLANES:
        return None
    weight, bias = constants
    groups = integer(node, "group", 1)
    given = _of(input_of(node, 0), known, 1, weight.shape[0]).reshape(groups, -1)
    reads = (weight != 0).reshape(groups, -1, weight.shape[1], math.prod(weight.shape[2:]))
    reads = reads.any(axis=3).swapaxes(1, 2)
    nothing = np.zeros((int(weight.shape[1]), int(weight.shape[0]) // groups))
    made = [_through(nothing, reads[i], given[i], True) for i in range(groups)]
    return Fixed(1, np.concatenate(made) + (0 if bias is None else bias.astype(np.float64)))


def _gemm(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    constants = constants_of(node)
    if isinstance(constants, Rejection) or integer(node, "transA", 0):
        return None
    weight, bias = constants
    sums = sums_of(node, weight)
    made = _through(sums, sums != 0, _of(input_of(node, 0), known, 1, sums.shape[1]), False)
    if bias is None:
        return Fixed(1, made)
    if bias.size not in (1, len(made)) or any(size != 1 for size in bias.shape[:-1]):
        return None
    row: Floats = bias.reshape(-1).astype(np.float64)
    return Fixed(1, made + floating(node, "beta", 1.0) * row)


def _matmul(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    weight, source = array_of(input_of(node, 1)), input_of(node, 0)
    rank = _rank(source)
    if weight is None or weight.ndim != 2 or rank < 2:
        return None
    given = _of(source, known, rank - 1, weight.shape[0])
    return Fixed(rank - 1, _through(sums_of(node, weight), (weight != 0).T, given, False))


def _batchnorm(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    found = affine(node)
    if isinstance(found, Rejection) or normalises_batch(node):
        return None
    factor, shift = found
    given = _of(input_of(node, 0), known, 1, len(factor))
    return Fixed(1, np.where(factor == 0, shift, given * factor + shift))


def _unary(node: ir.Node, known: Known, version: int) -> Fixed | None:
    """A function of every element, with constants beside it at most."""
    value = input_of(node, 0)
    held = None if value is None else known.get(value)
    if held is None:
        return None
    rest = [array_of(each) for each in node.inputs[1:]]
    for array, each in zip(rest, node.inputs[1:], strict=True):
        if each is not None and (array is None or array.size != 1):
            return None
    there = ~np.isnan(held.numbers)
    numbers = held.numbers.copy()
    given = numbers[there].astype(np.float32)
    beside = [None if a is None else a.reshape(()).astype(np.float32) for a in rest]
    made = evaluate(node.op_type, version, attributes_of(node), [given, *beside])
    numbers[there] = made.astype(np.float64)
    return Fixed(held.axis, numbers)


def _same(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    value = input_of(node, 0)
    return None if value is None else known.get(value)


def _zeros(node: ir.Node, known: Known, version: int) -> Fixed | None:
    """Only what is zero goes through: anything else meets zeros, or is rounded."""
    held = _same(node, known, version)
    zero = None if held is None else np.where(held.numbers == 0, 0.0, np.nan)
    return None if held is None or zero is None else Fixed(held.axis, zero)


def _pool(node: ir.Node, known: Known, version: int) -> Fixed | None:
    if len(node.outputs) > 1 or integer(node, "ceil_mode", 0):
        return None
    plain = pads_nothing(node)
    if node.op_type == "AveragePool":
        return (_same if plain else _zeros)(node, known, version)
    # Behind padding is minus infinity: no window may see nothing else.
    dilated = any(step != 1 for step in integers(node, "dilations"))
    return _same(node, known, version) if plain or not dilated else None


def _pad(node: ir.Node, known: Known, version: int) -> Fixed | None:
    held, pads = _same(node, known, version), array_of(input_of(node, 1))
    value, axes = array_of(input_of(node, 2)), input_of(node, 3)
    plain = input_of(node, 2) is None or (value is not None and not value.any())
    if held is None or pads is None or not plain or axes is not None:
        return None
    if word(node, "mode", "constant") != "constant" or pads.reshape(2, -1)[:, held.axis].any():
        return None
    return _zeros(node, known, version)


def _resize(node: ir.Node, known: Known, version: int) -> Fixed | None:
    held, made = _same(node, known, version), node.outputs[0]
    place = word(node, "coordinate_transformation_mode", "half_pixel")
    if held is None or place == "tf_crop_and_resize" or made.shape is None:
        return None
    if made.shape[held.axis] != len(held.numbers):
        return None
    return (_same if word(node, "mode", "nearest") == "nearest" else _zeros)(node, known, version)


def _binary(node: ir.Node, known: Known, version: int) -> Fixed | None:
    """Two values, or one and a constant that has one number a channel, or one for all."""
    held = next((known[v] for v in node.inputs if v is not None and v in known), None)
    rank = _rank(node.outputs[0])
    if held is None or any(_rank(v) != rank for v in node.inputs if v is not None and v in known):
        return None
    rows = [_row(v, known, held.axis, len(held.numbers), rank) for v in node.inputs]
    given = [row for row in rows if row is not None]
    if len(given) != len(rows):
        return None
    return Fixed(held.axis, evaluate(node.op_type, version, {}, list(given)))


def _row(value: ir.Value | None, known: Known, axis: int, size: int, rank: int) -> Floats | None:
    array = array_of(value)
    if array is None:
        return None if _rank(value) != rank else _of(value, known, axis, size)
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if math.prod(shape) != shape[axis] or shape[axis] not in (1, size):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (size,))


def _prelu(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    held = None if node.inputs[0] is None else known.get(node.inputs[0])
    rank = _rank(node.outputs[0])
    if held is None or array_of(input_of(node, 1)) is None:
        return None
    slope = _row(input_of(node, 1), known, held.axis, len(held.numbers), rank)
    if slope is None:
        return None
    return Fixed(held.axis, np.where(held.numbers < 0, held.numbers * slope, held.numbers))


def _concat(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    rank = _rank(node.outputs[0])
    axis = integer(node, "axis", 0) % rank
    parts: list[Floats] = []
    for value in node.inputs:
        size = None if value is None or value.shape is None else value.shape[axis]
        held = None if value is None else known.get(value)
        if not isinstance(size, int) or (held is not None and held.axis != axis):
            return None
        parts.append(_of(value, known, axis, size))
    return Fixed(axis, np.concatenate(parts))


def _reduce(node: ir.Node, known: Known, version: int) -> Fixed | None:
    del version
    value = input_of(node, 0)
    held = None if value is None else known.get(value)
    given = array_of(input_of(node, 1))
    axes = integers(node, "axes") if given is None else [int(axis) for axis in given.reshape(-1)]
    if held is None or not axes:
        return None
    over = {axis % _rank(value) for axis in axes}
    if held.axis in over:
        return None
    gone = 0 if integer(node, "keepdims", 1) else sum(axis < held.axis for axis in over)
    return Fixed(held.axis - gone, held.numbers)


def _transpose(node: ir.Node, known: Known, version: int) -> Fixed | None:
    held = _same(node, known, version)
    if held is None:
        return None
    order = integers(node, "perm") or tuple(range(_rank(node.outputs[0])))[::-1]
    return Fixed(order.index(held.axis), held.numbers)


def _flatten(node: ir.Node, known: Known, version: int) -> Fixed | None:
    """Channels with their pixels side by side, one row a sample."""
    held, made, source = _same(node, known, version), node.outputs[0].shape, node.inputs[0]
    if held is None or held.axis != 1 or source is None or source.shape is None or made is None:
        return None
    pixels = [size for size in source.shape[_FIRST_SPATIAL:] if isinstance(size, int)]
    width = len(held.numbers) * math.prod(pixels)
    rows = len(pixels) == len(source.shape) - _FIRST_SPATIAL and len(made) == _FIRST_SPATIAL
    if not rows or made[1] != width or made[0] != source.shape[0]:
        return None
    return Fixed(1, np.repeat(held.numbers, math.prod(pixels)))


_UNARY = (
    *("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Clip", "Neg", "Abs"),
    *("Elu", "Selu", "Celu", "Softplus", "Softsign", "Exp", "Erf", "Sqrt", "Gelu", "Mish"),
)
_RULES: Mapping[str, Callable[[ir.Node, Known, int], Fixed | None]] = {
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(("Identity", "GlobalAveragePool", "GlobalMaxPool"), _same),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _binary),
    **dict.fromkeys(("ReduceMean", "ReduceMax", "ReduceMin"), _reduce),
    **dict.fromkeys(("Flatten", "Reshape"), _flatten),
    "BatchNormalization": _batchnorm,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "PRelu": _prelu,
    "Pad": _pad,
    "Resize": _resize,
    "Transpose": _transpose,
}
