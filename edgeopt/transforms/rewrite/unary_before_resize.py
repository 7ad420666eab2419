"""A function of every element before pixels are repeated instead of after it.

    f(Resize_nearest(x))  =  Resize_nearest(f(x))

Nearest interpolation only copies. f then runs on 1/scale² of the elements, and directly behind a
convolution it is fused into it.

It must not fire on other interpolations (a mean of values of f is not f of the mean), with a value
for positions outside, or where planes shrink.
ONNX Runtime does nothing of it.
"""

import math

from edgeopt.transforms.rules.conditions import require_inside
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unary_first = Rule("unary_before_resize", shared="something else reads the enlarged planes")
_FUNCTIONS = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "Exp")


@unary_first.pattern
def _(
    op: Ops,
    x: Tensor,
    roi: Const | None = None,
    scales: Const | None = None,
    sizes: Const | None = None,
) -> Term:
    planes = op.Resize(x, roi, scales, sizes, _as="resize", _value="planes", _missing="no Resize")
    return op.one_of(*_FUNCTIONS)(planes, _as="function")


@unary_first.sound
def _(resize: Node) -> None:
    require(resize.mode == "nearest", "it does not copy pixels")
    require_inside(resize)


@unary_first.worth
def _(x: Tensor, planes: Tensor) -> None:
    before, after = (math.prod(each.size(a) for a in range(1, each.rank)) for each in (planes, x))
    require(after < before, "the planes do not grow")


@unary_first.replace_with
def _(
    op: Ops,
    x: Tensor,
    roi: Const | None,
    scales: Const | None,
    sizes: Const | None,
    resize: Node,
    function: Node,
) -> Term:
    small = op.like(function)(x, _name="function")
    return op.like(resize)(small, roi, scales, sizes, _name="resized")


PLUGIN = RuleTransform(unary_first)
