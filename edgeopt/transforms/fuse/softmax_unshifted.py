"""A softmax that is spelled out without taking the maximum off, as the one operator.

    e = Exp(x)      e / sum(e)  =  Softmax(x)

Where an exponential overflows, the spelled form is NaN and the operator is not: no rule that is
always done, but a choice. With the maximum taken off it is `softmax`.

It must not fire below opset 13, where the sum runs over several axes or drops its axis, on double
precision, or where something else reads a step.
ONNX Runtime does nothing of it; measured 1.03 [0.99, 1.08], so no gain is shown.
"""

from edgeopt.transforms.rules.conditions import integers_of, require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unshifted = Rule("softmax_unshifted", opset=13, shared="something else reads a step of it")


@unshifted.pattern
def _(op: Ops, x: Tensor, over: Const | None = None) -> Term:
    power = op.Exp(x, _missing="it does not divide an Exp")
    return power / op.ReduceSum(power, over, _as="total", _missing="it divides by no sum of it")


@unshifted.sound
def _(x: Tensor, total: Node, over: Const | None) -> None:
    require_kernel_for(x)
    require(
        x.rank > 0 and len(integers_of(total, "axes", over)) == 1, "the sum is over several axes"
    )
    require(bool(total.keepdims), "the sum drops its axis")


@unshifted.replace_with
def _(op: Ops, x: Tensor, total: Node, over: Const | None) -> Term:
    axis = integers_of(total, "axes", over)[0] % x.rank
    return op.Softmax(x, axis=axis)


PLUGIN = RuleTransform(unshifted)
