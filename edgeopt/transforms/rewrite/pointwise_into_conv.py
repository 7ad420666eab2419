"""A pointwise convolution and the convolution behind it as one.

    Conv(Conv1x1(x, W1, b1), W2, b2)  =  Conv(x, W2·W1, W2·b1 + b2)

It must not fire when something else reads the value between them, with a nonlinearity between
them, with groups in either, where the second pads and the first has a bias (a padded zero is not
b1), or where it would cost more multiplications a position.
ONNX Runtime keeps both.
"""

import math

from edgeopt.transforms.rules.conditions import require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term, total
from edgeopt.transforms.rules.transform import RuleTransform

inner = Rule("pointwise_into_conv", shared="something else reads the value between them")


@inner.pattern
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None = None, b2: Const | None = None
) -> Term:
    first = op.Conv(x, w1, b1, _as="first", _missing="it does not follow a convolution")
    return op.Conv(first, w2, b2, _as="second")


@inner.sound
def _(first: Node, second: Node, w1: Const, w2: Const, b1: Const | None) -> None:
    require_pointwise(first, w1)
    require(second.group == 1, "the second has groups")
    require(any(size != 1 for size in w2.shape[2:]), "compose_conv1x1 takes two of kernel 1")
    pads = any(second.pads) or second.auto_pad not in ("NOTSET", "VALID")
    require(b1 is None or not pads, "the second pads, and the first has a bias")


@inner.worth
def _(w1: Const, w2: Const, second: Node) -> None:
    middle, given = w1.shape[:2]
    made, taps = w2.shape[0], math.prod(w2.shape[2:])
    reach = math.prod(second.strides)
    before, after = given * middle * reach + middle * made * taps, given * made * taps
    require(after <= before, f"{after} multiplications a position instead of {before}")


@inner.replace_with
def _(
    op: Ops,
    x: Tensor,
    w1: Const,
    w2: Const,
    b1: Const | None,
    b2: Const | None,
    second: Node,
) -> Term:
    made, middle = w2.shape[:2]
    given, taps = w1.shape[1], math.prod(w2.shape[2:])
    turned = op.Transpose(op.Reshape(w1, op.i64(middle, given)), perm=(1, 0))
    mixed = turned @ op.Reshape(w2, op.i64(made, middle, taps))
    weight = op.Reshape(mixed, op.i64(made, given, *w2.shape[2:]))
    moved: Term | None = None
    if b1 is not None:
        flat = op.ReduceSum(op.Reshape(w2, op.i64(made, middle, taps)), op.i64(2), keepdims=0)
        moved = flat @ b1
    return op.like(second)(x, weight, total(moved, b2))


PLUGIN = RuleTransform(inner)
