"""A normalization by a reciprocal root, in the spelling that the runtime knows.

    r = mean(y²) + e        x · (1 / sqrt(r))  =  x / sqrt(r)        y² written as Pow(y, 2)

With y = x it is RMSNorm, with x = y = z - mean(z) a layer normalization. torch's exporter of 2025
writes rsqrt as Sqrt and Reciprocal, and some models square by a product; ONNX Runtime fuses the
Div and the Pow alone: one kernel instead of seven.

It must not fire where the mean runs over other than the last axis, where it drops that axis, or
where something else reads a step.
"""

from edgeopt.transforms.rules.conditions import HALF_UP, integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

norm = Rule("root_mean_square", opset=11, shared="something else reads a step")


@norm.pattern
def _(op: Ops, x: Tensor, y: Tensor, e: Const, axes: Const | None = None) -> Term:
    mean = op.ReduceMean(op.Pow(y, 2), axes, _as="mean", _missing="no mean of squares")
    return x * op.Reciprocal(op.Sqrt(mean + e))


@norm.pattern
def _(op: Ops, x: Tensor, y: Tensor, e: Const, axes: Const | None = None) -> Term:
    mean = op.ReduceMean(y * y, axes, _as="mean", _missing="no mean of squares")
    return x * op.Reciprocal(op.Sqrt(mean + e))


@norm.pattern
def _(op: Ops, x: Tensor, y: Tensor, e: Const, axes: Const | None = None) -> Term:
    mean = op.ReduceMean(y * y, axes, _as="mean", _missing="no mean of squares")
    return x / op.Sqrt(mean + e)


@norm.sound
def _(x: Tensor, y: Tensor, e: Const, mean: Node, axes: Const | None) -> None:
    require(x.dtype in HALF_UP, "it is not in float32 or float16")
    require(e.array().size == 1 and e.rank <= y.rank, "what is added is no number")
    along = [axis % y.rank for axis in integers_of(mean, "axes", axes)]
    require(along == [y.rank - 1], "the mean is not over the last axis")
    require(bool(mean.keepdims), "the mean drops the axis")


@norm.replace_with
def _(op: Ops, x: Tensor, y: Tensor, e: Const, axes: Const | None, mean: Node) -> Term:
    squares = op.Pow(y, 2, _name="square")
    root = op.Sqrt(op.like(mean)(squares, axes, _name="mean") + e, _name="root")
    return x / root


PLUGIN = RuleTransform(norm)
