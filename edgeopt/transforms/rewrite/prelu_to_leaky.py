"""A PRelu with one slope for all, as the operator that runtimes fuse.

    PRelu(x, a)  =  LeakyRelu(x, alpha = a)          all elements of a are equal

It must not fire with slopes that differ or are computed, where the slope would widen x, or in
other than floating point.
A slope of 0 is a Relu (`leaky_to_relu`), one of 1 nothing (`drop_dead`).
ONNX Runtime fuses LeakyRelu into a convolution, PRelu not; measured 1.4 behind one.
"""

from edgeopt.transforms.rules.conditions import require_kernel_for, require_not_wider
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

leaky = Rule("prelu_to_leaky", opset=6, no_constant={"a": "the slope is no constant"})


@leaky.pattern
def _(op: Ops, x: Tensor, a: Const) -> Term:
    return op.PRelu(x, a)


@leaky.sound
def _(x: Tensor, a: Const) -> None:
    require_kernel_for(x)
    slopes = a.array()
    require(slopes.size > 0 and bool((slopes == slopes.flat[0]).all()), "the slopes differ")
    require_not_wider(a, x, "the slope would widen it")


@leaky.replace_with
def _(op: Ops, x: Tensor, a: Const) -> Term:
    return op.LeakyRelu(x, alpha=float(a.array().flat[0]))


PLUGIN = RuleTransform(leaky)
