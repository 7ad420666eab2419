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

import math

from edgeopt.transforms.rules.conditions import require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term, total
from edgeopt.transforms.rules.transform import RuleTransform

compose = Rule("compose_conv1x1", shared="something else reads the value between them")


@compose.pattern
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None = None, b2: Const | None = None
) -> Term:
    inner = op.Conv(x, w1, b1, _as="first", _missing="it does not follow a convolution")
    return op.Conv(inner, w2, b2, _as="second")


@compose.sound
def _(first: Node, second: Node, w2: Const) -> None:
    require(first.group == 1, "the first has groups")
    require_pointwise(second, w2)


@compose.worth
def _(w1: Const, w2: Const) -> None:
    """Multiplications a position must not grow; both run at the same positions."""
    middle, made, taps = w1.shape[0], w2.shape[0], math.prod(w1.shape[1:])
    before, after = taps * middle + middle * made, taps * made
    require(after <= before, f"{after} multiplications a position instead of {before}")


@compose.replace_with
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None, b2: Const | None, first: Node
) -> Term:
    made, middle = w2.shape[:2]
    mix = op.Reshape(w2, op.i64(made, middle))
    weight = op.Reshape(mix @ op.Reshape(w1, op.i64(middle, -1)), op.i64(made, *w1.shape[1:]))
    return op.like(first)(x, weight, total(mix @ b1 if b1 else None, b2))


PLUGIN = RuleTransform(compose)
