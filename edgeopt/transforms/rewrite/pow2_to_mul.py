"""A square as a product.

    Pow(x, 2)  =  x · x

It must not fire on another exponent, on one of a higher rank than x (it would change the shape),
on integers (some runtimes have no product of their type), where the exponent is computed, or
where a mean is taken of it: that is a variance, and runtimes know normalizations by this Pow.
Quantizers and fusions know Mul, not Pow.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import FLOATS, Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

square = Rule("pow2_to_mul", opset=7, no_constant={"exponent": "the exponent is computed"})


@square.pattern
def _(x: Tensor, exponent: Const) -> Term:
    return x**exponent


@square.sound
def _(x: Tensor, exponent: Const) -> None:
    require(x.dtype in FLOATS, "it is not in floating point")
    # A constant of a higher rank would change the shape.
    one = exponent.array().size == 1 and exponent.rank <= (x.rank if exponent.rank else 0)
    require(one and exponent.scalar() == 2.0, "the exponent is not 2.0")


@square.worth
def _(readers: frozenset[str]) -> None:
    require("ReduceMean" not in readers, "its mean is a variance")


@square.replace_with
def _(op: Ops, x: Tensor) -> Term:
    return op.Mul(x, x)


PLUGIN = RuleTransform(square)
