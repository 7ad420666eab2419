"""A leaky activation that lets nothing through below 0, as the operator for that.

    LeakyRelu(x, alpha = 0)  =  Relu(x)          PRelu(x, 0)  =  Relu(x)

So nets come out whose slopes were trained towards 0 or held there, and pruning, quantization and
rules that ask for a Relu (what follows is not negative) then know it. A slope of 1 is nothing at
all: see `drop_dead`.

A choice, since 0 times minus infinity was NaN, and zeros lose their sign. It must not fire on
another slope, on slopes that are computed or differ, where the slope would widen x, or in other
than floating point.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.conditions import require_kernel_for, require_not_wider
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

to_relu = Rule("leaky_to_relu", opset=6, no_constant={"a": "the slope is no constant"})


@to_relu.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.LeakyRelu(x, alpha=0.0)


@to_relu.pattern
def _(op: Ops, x: Tensor, a: Const) -> Term:
    return op.PRelu(x, a)


@to_relu.sound
def _(x: Tensor, a: Const | None = None) -> None:
    require_kernel_for(x)
    if a is not None:
        require(not a.array().any(), "a slope is not 0")
        require_not_wider(a, x, "the slope would widen it")


@to_relu.replace_with
def _(op: Ops, x: Tensor) -> Term:
    return op.Relu(x)


PLUGIN = RuleTransform(to_relu)
