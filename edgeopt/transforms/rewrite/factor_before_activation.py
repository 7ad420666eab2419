"""A positive factor before an activation instead of behind it.

    c · f(Conv(x))  =  f(c · Conv(x))          c > 0; f = Relu, LeakyRelu or MaxPool

`fold_mul` then takes the factor into the weights, and the runtime fuses the activation into the
convolution again.

It must not fire with a factor of 0 or below or one that varies over positions, where something
else reads the activation, or where no convolution stands before it.
ONNX Runtime does nothing of it; measured 1.02-1.05.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

factor = Rule("factor_before_activation", opset=7, shared="something else reads the activation")


@factor.pattern
def _(op: Ops, x: Tensor, w: Const, c: Const, b: Const | None = None) -> Term:
    made = op.Conv(x, w, b, _as="conv", _missing="no convolution stands before it")
    act = op.one_of("Relu", "LeakyRelu", "MaxPool")(made, _as="act", _missing="no activation")
    return op.Mul(act, c)


@factor.sound
def _(w: Const, c: Const) -> None:
    numbers = c.array()
    positive = bool((numbers > 0).all()) and bool(np.isfinite(numbers).all())
    require(positive, "a factor is not positive")
    channels = w.shape[0]
    own = (1,) * (w.rank - c.rank) + c.shape
    wide = c.rank > w.rank or any(size != 1 for i, size in enumerate(own) if i != 1)
    require(not wide and own[1] in (1, channels), "the factor varies over positions")


@factor.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, c: Const, conv: Node, act: Node) -> Term:
    ones = op.i64(-1, *(1,) * (w.rank - 1))
    row = op.Reshape(c, op.i64(-1))
    bias = None if b is None else b * row
    scaled = op.like(conv)(x, w * op.Reshape(c, ones), bias, _name="conv")
    return op.like(act)(scaled)


PLUGIN = RuleTransform(factor)
