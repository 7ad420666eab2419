"""A softmax that is spelled out, as the one operator.

    e = Exp(x - max(x))      e / sum(e)  =  Softmax(x)

It must not fire below opset 13, where maximum and sum run over different axes or over several,
where they drop the axis, without the maximum (large x then overflow, and Softmax would not:
`softmax_unshifted`), or where something else reads a step.
ONNX Runtime does nothing of it; measured 1.8.
"""

from edgeopt.transforms.rules.conditions import integers_of, require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

softmax = Rule("softmax", opset=13, shared="something else reads a step of it")


@softmax.pattern
def _(op: Ops, x: Tensor, top: Const | None = None, over: Const | None = None) -> Term:
    apart = x - op.ReduceMax(x, top, _as="highest", _missing="no maximum is taken off")
    power = op.Exp(apart, _missing="it does not divide an Exp")
    return power / op.ReduceSum(power, over, _as="total")


@softmax.sound
def _(x: Tensor, highest: Node, total: Node, top: Const | None, over: Const | None) -> None:
    require_kernel_for(x)
    axes = [
        [axis % x.rank for axis in integers_of(node, "axes", given)]
        for node, given in ((highest, top), (total, over))
    ]
    require(axes[0] == axes[1] and len(axes[0]) == 1, "they run over different or several axes")
    require(bool(highest.keepdims) and bool(total.keepdims), "they drop the axis")


@softmax.replace_with
def _(op: Ops, x: Tensor, total: Node, over: Const | None) -> Term:
    axis = integers_of(total, "axes", over)[0] % x.rank
    return op.Softmax(x, axis=axis)


PLUGIN = RuleTransform(softmax)
