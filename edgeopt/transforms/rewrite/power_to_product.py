"""A power of small whole exponent as products, or as a reciprocal.

    Pow(x, 3)  =  x · x · x          Pow(x, -1)  =  1/x          Pow(x, 1)  =  x

It must not fire on another exponent (2 is `pow2_to_mul`, 1/2 `power_to_root`), on one of a higher
rank than x, on integers, or where the exponent is computed.
ONNX Runtime does only squares and cubes inside its own kernel; measured 1.2-1.4.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import FLOATS, Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

power = Rule("power_to_product", opset=7, no_constant={"c": "the exponent is computed"})
_CUBE = 3.0


@power.pattern
def _(op: Ops, x: Tensor, c: Const) -> Term:
    return op.Pow(x, c)


@power.sound
def _(x: Tensor, c: Const) -> None:
    require(x.dtype in FLOATS, "it is not in floating point")
    require(c.array().size == 1 and c.rank <= x.rank, "it has several exponents, or widens")
    require(c.scalar() in (_CUBE, -1.0, 1.0), "the exponent is not 3, -1 or 1")


@power.replace_with
def _(op: Ops, x: Tensor, c: Const) -> Term:
    if c.scalar() == _CUBE:
        return op.Mul(op.Mul(x, x, _name="square"), x, _name="cube")
    return op.Reciprocal(x) if c.scalar() == -1.0 else x


PLUGIN = RuleTransform(power)
