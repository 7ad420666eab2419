"""A PRelu with one slope for all, as the operator that runtimes fuse.

    PRelu(x, a)  =  LeakyRelu(x, alpha = a)          all elements of a are equal

It must not fire with slopes that differ or are computed, where the slope would widen x, or in
other than floating point.
ONNX Runtime fuses LeakyRelu into a convolution, PRelu not; measured 1.4 behind one.
"""

from edgeopt.transforms.rules.conditions import require_kernel_for
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
    pairs = zip(a.shape[::-1], x.shape[::-1], strict=False)
    fits = a.rank <= x.rank and all(one in (1, other) for one, other in pairs)
    require(fits, "the slope would widen it")


@leaky.replace_with
def _(op: Ops, x: Tensor, a: Const) -> Term:
    return op.LeakyRelu(x, alpha=float(a.array().flat[0]))


PLUGIN = RuleTransform(leaky)
