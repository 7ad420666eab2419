"""A factor and a shift of every channel before a layer, in its weights and bias.

    Conv(x s + t, W)  =  Conv(x, W s) + W t          MatMul(x s + t, W)  =  MatMul(x, s W) + t W

Whatever is read as one factor and one shift a channel goes as a whole: constants added,
subtracted, multiplied and divided, a BatchNormalization, a depthwise 1x1 convolution. It is the
preprocessing that is exported with a model, (x - mean) / std, and a normalization that stands
before its layer. Where the layer pads, a padded zero is not t: then only the factor goes, and t/s
is still added.

It must not fire with a nonlinearity between, where something else reads the result, where a
constant varies over positions, where a factor is 0 and stays behind, where a layer that pads
would gain nothing (one shift before it, or one that is padded and no factor), or on a number
behind a product of two computed values (it may end a GELU or hard swish that is spelled out).
Imperative, since the chain may have any length. ONNX Runtime folds scalar factors into MatMul
alone; measured 1.1 (normalization before Conv1x1) and 1.25 (normalised input).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import (
    LocalRule,
    floating,
    input_of,
    integer,
    integers,
    refuse,
    set_constant,
    site_of,
    word,
)
from edgeopt.transforms.rewrite._around import Steps, constant_operand, rows
from edgeopt.transforms.rewrite._batchnorm import affine, normalises_batch
from edgeopt.transforms.rewrite._convolution import constants_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Line:
    """`source * factor + shift`, one number a channel."""

    source: ir.Value
    factor: Floats
    shift: Floats
    steps: int = 0


@dataclass(frozen=True, slots=True)
class _Fold:
    layer: ir.Node
    line: _Line
    whole: bool


def _line(value: ir.Value, user: ir.Node, channels: int, from_end: int) -> _Line:
    """A value as a line in another, as far up as it goes."""
    plain = _Line(value, np.ones(channels), np.zeros(channels))
    node = value.producer()
    if node is None or node.domain or node.graph is not user.graph or sole_user(value) is not user:
        return plain
    found = _step(node, channels, from_end)
    if found is None:
        return plain
    source, factor, shift = found
    inner = _line(source, node, channels, from_end)
    return _Line(inner.source, inner.factor * factor, inner.shift * factor + shift, inner.steps + 1)


def _step(node: ir.Node, channels: int, from_end: int) -> tuple[ir.Value, Floats, Floats] | None:
    one, none = np.ones(channels), np.zeros(channels)
    if node.op_type == "BatchNormalization" and not normalises_batch(node):
        numbers = affine(node)
        held = node.inputs[0]
        if isinstance(numbers, Rejection) or held is None or held.shape is None:
            return None
        # Its channels lie on axis 1: rows of numbers have them last, planes do not.
        return (held, *numbers) if len(held.shape) == from_end + 1 else None
    if node.op_type == "Conv" and from_end > 1:
        return _depthwise(node, channels)
    found = constant_operand(node)
    if found is None or node.op_type not in {"Add", "Sub", "Mul", "Div"}:
        return None
    value, array = found
    if array.size == 1 and _is_gated(value):
        return None
    row = rows(array, from_end, channels)
    if row is None or value.shape is None or array.ndim > len(value.shape):
        return None
    if array.size > 1 and value.shape[len(value.shape) - from_end] != channels:
        return None  # it widens one channel to several, or may do so
    first = value is node.inputs[0]
    match node.op_type:
        case "Add":
            return value, one, row
        case "Sub":
            return (value, one, -row) if first else (value, -one, row)
        case "Mul":
            return value, row, none
        case _:
            return (value, 1 / row, none) if first and row.all() else None


def _is_gated(value: ir.Value) -> bool:
    """Whether it is a product of two computed values: a number behind it may end a spelled GELU."""
    node = value.producer()
    computed = node is not None and all(array_of(one) is None for one in node.inputs)
    return node is not None and node.op_type == "Mul" and computed


def _depthwise(node: ir.Node, channels: int) -> tuple[ir.Value, Floats, Floats] | None:
    constants, held = constants_of(node), node.inputs[0]
    if isinstance(constants, Rejection) or held is None:
        return None
    weight, bias = constants
    plain = not any(integers(node, "pads")) and all(s == 1 for s in integers(node, "strides"))
    if not plain or weight.size != channels or integer(node, "group", 1) != channels:
        return None
    shift = np.zeros(channels) if bias is None else bias.astype(np.float64)
    return held, weight.reshape(-1).astype(np.float64), shift


def _match(layer: ir.Node) -> _Fold | Rejection:
    weight, source = array_of(input_of(layer, 1)), layer.inputs[0]
    if weight is None or source is None or source.dtype != ir.DataType.FLOAT or weight.ndim < 2:
        return refuse("it is no layer in float32 with constant weights", layer)
    if layer.op_type == "Gemm" and (integer(layer, "transA", 0) or _scales_bias(layer)):
        return refuse("its input is transposed, or its bias scaled", layer)
    if layer.op_type == "MatMul" and weight.ndim != 2:
        return refuse("it multiplies with several matrices", layer)
    if layer.op_type != "MatMul" and isinstance(constants := constants_of(layer), Rejection):
        return constants
    axis = _axis(layer)
    channels = weight.shape[axis] * (integer(layer, "group", 1) if layer.op_type == "Conv" else 1)
    line = _line(source, layer, channels, weight.ndim - 1 if layer.op_type == "Conv" else 1)
    if not line.steps or not np.isfinite(line.factor).all():
        return refuse("nothing before it is one factor and one shift a channel", layer)
    if _pads(layer) and line.shift.any():
        if line.steps == 1 or not line.factor.all() or (line.factor == 1).all():
            return refuse("it pads, and a padded zero is not the shift", layer)
        return _Fold(layer, line, False)
    return _Fold(layer, line, True)


def _scales_bias(gemm: ir.Node) -> bool:
    return floating(gemm, "beta", 1.0) != 1.0


def _axis(layer: ir.Node) -> int:
    """The axis of the weight that meets the channels of the input."""
    if layer.op_type == "MatMul":
        return 0
    return 1 if layer.op_type == "Conv" or integer(layer, "transB", 0) else 0


def _pads(layer: ir.Node) -> bool:
    if layer.op_type != "Conv":
        return False
    return any(integers(layer, "pads")) or word(layer, "auto_pad", "NOTSET") not in {
        "NOTSET",
        "VALID",
    }


def _rewrite(editor: Editor, found: _Fold) -> None:
    layer, line, site = found.layer, found.line, f"{site_of(found.layer)}/affine_before"
    weight = np.asarray(array_of(layer.inputs[1]))
    wide = weight.astype(np.float64)
    scaled, moved = _folded(layer, wide, line)
    source = line.source
    old = layer.inputs[0]
    if not found.whole:
        steps = Steps(editor, "affine_before", layer)
        shape = (1, -1, *(1,) * (weight.ndim - 2))
        rest = steps.constant("shift", (line.shift / line.factor).reshape(shape).astype(np.float32))
        source = steps.add("shifted", "Add", [source, rest], source.shape)
        steps.insert()
    editor.set_input(layer, 0, source)
    if old is not None and (maker := old.producer()) is not None:
        editor.remove_dead([maker])
    set_constant(editor, layer, 1, f"{site}/weight", scaled.astype(np.float32))
    if not found.whole or not line.shift.any():
        return
    if layer.op_type == "MatMul":
        _add_behind(editor, layer, f"{site}", moved.astype(np.float32))
        return
    held = array_of(input_of(layer, 2))
    bias = moved if held is None else moved + held.astype(np.float64)
    set_constant(editor, layer, 2, f"{site}/bias", bias.astype(np.float32))


def _folded(layer: ir.Node, wide: Floats, line: _Line) -> tuple[Floats, Floats]:
    """The scaled weight, and what the shift adds to each output channel."""
    if layer.op_type != "Conv":
        axis = _axis(layer)
        row = line.factor.reshape((-1, 1) if axis == 0 else (1, -1))
        moved = line.shift @ wide if axis == 0 else wide @ line.shift
        alpha = layer.attributes.get("alpha")
        return wide * row, moved * (1.0 if alpha is None else alpha.as_float())
    group, per = integer(layer, "group", 1), wide.shape[1]
    rows_of = np.repeat(np.arange(group), len(wide) // group)
    factor, shift = (numbers.reshape(group, per)[rows_of] for numbers in (line.factor, line.shift))
    ones = (1,) * (wide.ndim - 2)
    moved = (wide.reshape(len(wide), per, -1).sum(-1) * shift).sum(1)
    return wide * factor.reshape(len(wide), per, *ones), moved


def _add_behind(editor: Editor, layer: ir.Node, site: str, row: npt.NDArray[np.float32]) -> None:
    """A bias behind a MatMul."""
    old = layer.outputs[0]
    steps = Steps(editor, "affine_before", layer)
    product = steps.add("product", "MatMul", list(layer.inputs), old.shape)
    steps.add("sum", "Add", [product, steps.constant("bias", row)], old.shape)
    steps.finish()


PLUGIN = LocalRule(
    name="affine_before",
    roots=frozenset({"Conv", "Gemm", "MatMul"}),
    match=_match,
    rewrite=_rewrite,
    opset=7,
)
