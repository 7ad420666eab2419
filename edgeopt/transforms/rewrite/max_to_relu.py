"""Bounds by numbers, as the operators that runtimes fuse.

    Max(x, 0)  =  Relu(x)          Min(Max(x, a), b)  =  Clip(x, a, b)          a <= b
    Max(x, a)  =  Clip(x, a, inf)          Min(Relu(x), b)      =  Clip(x, 0, b)          b >= 0
    Min(x, b)  =  Clip(x, -inf, b)         Clip(Relu(x), a, b)  =  Clip(x, max(a, 0), b)

It must not fire with bounds that are computed, cross or widen x, on integers, or where something
else reads the inner value. NaN stays NaN on both sides.
ONNX Runtime fuses Relu and Clip into a convolution, Max and Min not.
"""

import numpy as np

from edgeopt.transforms.rules.conditions import require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

relu = Rule("max_to_relu", opset=12, shared="something else reads the inner value")


@relu.pattern
def _(op: Ops, x: Tensor, low: Const, high: Const) -> Term:
    return op.Min(op.Max(x, low), high)


@relu.pattern
def _(op: Ops, x: Tensor, low: Const, high: Const) -> Term:
    return op.Max(op.Min(x, high), low)


@relu.pattern
def _(op: Ops, x: Tensor, high: Const) -> Term:
    return op.Min(op.Relu(x, _as="positive"), high)


@relu.pattern
def _(op: Ops, x: Tensor, low: Const | None = None, high: Const | None = None) -> Term:
    return op.Clip(op.Relu(x, _as="positive"), low, high)


@relu.pattern
def _(op: Ops, x: Tensor, low: Const) -> Term:
    return op.Max(x, low)


@relu.pattern
def _(op: Ops, x: Tensor, high: Const) -> Term:
    return op.Min(x, high)


@relu.sound
def _(
    x: Tensor,
    low: Const | None = None,
    high: Const | None = None,
    positive: Node | None = None,
) -> None:
    require_kernel_for(x)
    for each in (low, high):
        if each is not None:
            require(each.array().size == 1 and each.rank <= x.rank, "a bound is no number")
    least = _least(low, positive)
    crossing = least is not None and high is not None and least > high.scalar()
    require(not crossing, "the bounds cross")


@relu.replace_with
def _(
    op: Ops,
    x: Tensor,
    low: Const | None = None,
    high: Const | None = None,
    positive: Node | None = None,
) -> Term:
    least = _least(low, positive)
    if high is None and least == 0.0:
        return op.Relu(x)
    # A bound that is left out is the largest finite number: infinity would not stay.
    low_end = -np.inf if least is None else least
    high_end = np.inf if high is None else high.scalar()
    bounds = [op.array(np.array(number, np.dtype(x.dtype))) for number in (low_end, high_end)]
    return op.Clip(x, *bounds)


def _least(low: Const | None, positive: Node | None) -> float | None:
    """The lower bound; None where there is none."""
    if positive is None:
        return None if low is None else low.scalar()
    return 0.0 if low is None else max(0.0, low.scalar())


PLUGIN = RuleTransform(relu)
