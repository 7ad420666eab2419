"""A power of whole exponent as products, as a reciprocal, or as ones.

    Pow(x, 4)  =  (x · x)²          Pow(x, 3)  =  x · x · x          Pow(x, 1)  =  x
    Pow(x, 0)  =  1                 Pow(x, -1)  =  1/x

Ones are a constant where all sizes of x are known and few, else they are repeated to its shape.
(A power of zero is one of NaN and infinity, too.)

It must not fire on another exponent (2 is `pow2_to_mul`, 1/2 and -1/2 `power_to_root`), on one of
a higher rank than x, on integers, or where the exponent is computed.
ONNX Runtime does only squares and cubes inside its own kernel; measured 1.2-1.4 (a cube).
"""

import math

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import FLOATS, Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

power = Rule("power_to_product", opset=7, no_constant={"c": "the exponent is computed"})
_ZERO, _CUBE, _FOURTH = 0.0, 3.0, 4.0
_MOST_ONES = 4096


@power.pattern
def _(op: Ops, x: Tensor, c: Const) -> Term:
    return op.Pow(x, c)


@power.sound
def _(x: Tensor, c: Const) -> None:
    require(x.dtype in FLOATS, "it is not in floating point")
    require(c.array().size == 1 and c.rank <= x.rank, "it has several exponents, or widens")
    known = c.scalar() in (_FOURTH, _CUBE, 1.0, _ZERO, -1.0)
    require(known, "the exponent is not 4, 3, 1, 0 or -1")


@power.replace_with
def _(op: Ops, x: Tensor, c: Const) -> Term:
    exponent = c.scalar()
    if exponent == _ZERO:
        return _ones(op, x)
    if exponent in (_CUBE, _FOURTH):
        square = op.Mul(x, x, _name="square")
        return op.Mul(square, x if exponent == _CUBE else square, _name="power")
    return op.Reciprocal(x) if exponent == -1.0 else x


def _ones(op: Ops, x: Tensor) -> Term:
    sizes = [size for size in x.shape if isinstance(size, int)]
    if len(sizes) == x.rank and math.prod(sizes) <= _MOST_ONES:
        return op.array(np.ones(sizes, x.dtype), name="ones")
    return op.Expand(op.array(np.ones((), x.dtype), name="one"), op.Shape(x))


PLUGIN = RuleTransform(power)
