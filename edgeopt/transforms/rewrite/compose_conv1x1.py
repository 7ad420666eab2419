"""A convolution and the pointwise convolution behind it as one.

    Conv1x1(Conv(x, W1, b1), W2, b2)  =  Conv(x, W2·W1, W2·b1 + b2)

The product runs over the channels between them. Zeros that the first pads x with stay zeros of x,
so its padding, stride and dilation are free.

It must not fire when something else reads the value between them, with a nonlinearity between
them, with groups in either, when the second has a stride or pads (a padded zero between them is
not b1), or where it would cost more multiplications: a narrow middle is a low-rank factor, and
composing it would undo the saving.
ONNX Runtime keeps both; measured gain 1.3 (1x1, 1x1) and 1.1 (3x3, 1x1).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import (
    LocalRule,
    input_of,
    integer,
    refuse,
    set_constant,
    site_of,
)
from edgeopt.transforms.rewrite._convolution import constants_of, why_not_pointwise

Weights = tuple[npt.NDArray[Any], npt.NDArray[Any] | None]


@dataclass(frozen=True, slots=True)
class _Pair:
    first: ir.Node
    second: ir.Node
    inner: Weights
    outer: Weights


def _match(second: ir.Node) -> _Pair | Rejection:
    value = input_of(second, 0)
    first = None if value is None else value.producer()
    if value is None or first is None or first.op_type != "Conv" or first.domain:
        return refuse("it does not follow a convolution", second)
    if sole_user(value) is not second or first.graph is not second.graph:
        return refuse("something else reads the value between them", first)
    inner, outer = constants_of(first), constants_of(second)
    if isinstance(inner, Rejection):
        return inner
    if isinstance(outer, Rejection):
        return outer
    if integer(first, "group", 1) != 1:
        return refuse("the first has groups", first)
    reason = why_not_pointwise(second, outer[0]) or _why_not_worth(second, inner[0], outer[0])
    return reason or _Pair(first, second, inner, outer)


def _why_not_worth(
    second: ir.Node, inner: npt.NDArray[Any], outer: npt.NDArray[Any]
) -> Rejection | None:
    """Multiplications a position must not grow; both run at the same positions."""
    middle, made = inner.shape[0], outer.shape[0]
    taps = int(np.prod(inner.shape[1:]))
    before, after = taps * middle + middle * made, taps * made
    if after > before:
        return refuse(f"{after} multiplications a position instead of {before}", second)
    return None


def _rewrite(editor: Editor, pair: _Pair) -> None:
    site, first, second = site_of(pair.second), pair.first, pair.second
    (inner, inner_bias), (outer, outer_bias) = pair.inner, pair.outer
    mix = outer.reshape(outer.shape[:2]).astype(np.float64)
    weight = np.tensordot(mix, inner.astype(np.float64), axes=1).astype(inner.dtype)
    bias = np.zeros(len(mix)) if outer_bias is None else outer_bias.astype(np.float64)
    if inner_bias is not None:
        bias = bias + mix @ inner_bias.astype(np.float64)
    set_constant(editor, first, 1, f"{site}/compose_conv1x1/weight", weight)
    if inner_bias is not None or outer_bias is not None:
        set_constant(editor, first, 2, f"{site}/compose_conv1x1/bias", bias.astype(inner.dtype))
    editor.set_shape(first.outputs[0], second.outputs[0].shape)
    editor.replace_value(second.outputs[0], first.outputs[0])
    editor.remove_dead([second])


PLUGIN = LocalRule(
    name="compose_conv1x1",
    roots=frozenset({"Conv"}),
    match=_match,
    rewrite=_rewrite,
)
