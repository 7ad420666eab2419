"""A sigmoid spelled by an exponential, and the Swish of opset 24, as what runtimes fuse.

    1 / (1 + Exp(-x))   =  Sigmoid(x)                  also as Reciprocal
    y / (1 + Exp(-x))   =  y · Sigmoid(x)              with y = x this is SiLU
    Swish(x, alpha)     =  x · Sigmoid(alpha · x)

ONNX Runtime makes one operator of x · Sigmoid(x) by itself (so this rule writes none of
`com.microsoft`), and keeps its blocked layout through it. It knows none of the forms on the left:
measured on eight pointwise convolutions of 64 channels at 28x28, each with a SiLU behind, 1.7
times the speed for the exponential, 1.8 for Swish (ONNX Runtime 1.32, x86, one thread).

It must not fire where the exponential or the sum is used elsewhere, with other constants than 1,
or on double precision.
"""

import numpy as np

from edgeopt.transforms.rules.conditions import require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_OTHER = "it does not divide by 1 + Exp(-x)"
sigmoid = Rule("sigmoid", opset=6, shared=_OTHER, number=_OTHER)


def _above_one(op: Ops, x: Tensor) -> Term:
    """1 + Exp(-x)."""
    falling = op.either(op.Neg(x, _missing=_OTHER), x * -1, x / -1)
    power = op.Exp(falling, _missing=_OTHER)
    return op.either(op.Add(power, 1, _missing=_OTHER), power - -1)


@sigmoid.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.Reciprocal(_above_one(op, x))


@sigmoid.pattern
def _(op: Ops, x: Tensor) -> Term:
    return 1 / _above_one(op, x)


@sigmoid.pattern
def _(op: Ops, x: Tensor, y: Tensor) -> Term:
    return y / _above_one(op, x)


@sigmoid.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.Swish(x, _as="swish")


@sigmoid.sound
def _(x: Tensor, y: Tensor | None = None) -> None:
    require_kernel_for(x)
    constant = y is not None and y.known.load is not None
    require(not constant, "it divides another constant than 1")


@sigmoid.replace_with
def _(op: Ops, x: Tensor, y: Tensor | None = None, swish: Node | None = None) -> Term:
    alpha = 1.0 if swish is None else float(str(swish.attrs.get("alpha", 1.0)))
    line: Term = x
    if alpha != 1:
        slope = op.array(np.array(alpha, x.dtype), name="alpha")
        line = op.Mul(x, slope, _name="line")
    curve = op.Sigmoid(line, _name="curve")
    factor = x if swish is not None else y
    return curve if factor is None else op.Mul(factor, curve, _name="product")


PLUGIN = RuleTransform(sigmoid)
