"""Bounds by numbers, as the operators that runtimes fuse.

    Max(x, 0)  =  Relu(x)          Min(Max(x, a), b)  =  Clip(x, a, b)          a <= b

It must not fire on another lower bound alone, with bounds that are computed, cross or widen x, on
integers, or where something else reads the inner value. NaN stays NaN on both sides.
ONNX Runtime fuses Relu and Clip into a convolution, Max and Min not.
"""

from edgeopt.transforms.rules.conditions import require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

relu = Rule("max_to_relu", opset=12, shared="something else reads the inner value")


@relu.pattern
def _(op: Ops, x: Tensor, low: Const, high: Const) -> Term:
    return op.Min(op.Max(x, low), high)


@relu.pattern
def _(op: Ops, x: Tensor, low: Const, high: Const) -> Term:
    return op.Max(op.Min(x, high), low)


@relu.pattern
def _(op: Ops, x: Tensor, low: Const) -> Term:
    return op.Max(x, low)


@relu.sound
def _(x: Tensor, low: Const, high: Const | None = None) -> None:
    require_kernel_for(x)
    for each in (low, high):
        if each is not None:
            require(each.array().size == 1 and each.rank <= x.rank, "a bound is no number")
    if high is None:
        require(low.scalar() == 0.0, "the only bound is not 0")
    else:
        require(low.scalar() <= high.scalar(), "the bounds cross")


@relu.replace_with
def _(op: Ops, x: Tensor, low: Const, high: Const | None = None) -> Term:
    if high is None:
        return op.Relu(x)
    bounds = [op.array(each.array().reshape(())) for each in (low, high)]
    return op.Clip(x, *bounds)


PLUGIN = RuleTransform(relu)
