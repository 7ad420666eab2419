"""A division by constants as a product.

    x / c  =  x · (1/c)

It must not fire where a constant is 0 or so small that 1/c overflows, on integers, or before an
Erf or behind a Sqrt (spellings of GELU that runtimes know by their Div).
One rounding more unless c is a power of 2. ONNX Runtime does nothing of it; measured 1.5.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import FLOATS, Const, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

divide = Rule("divide_by_constant", opset=7, no_constant={"c": "the divisor is no constant"})


@divide.pattern
def _(op: Ops, x: Tensor, c: Const) -> Term:
    return op.Div(x, c)


@divide.sound
def _(x: Tensor, c: Const) -> None:
    require(x.dtype in FLOATS, "it is not in floating point")
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1 / c.array()
    fine = bool(np.isfinite(inverse).all()) and bool((inverse != 0).all())
    require(fine, "a divisor has no inverse")


@divide.worth
def _(readers: frozenset[str]) -> None:
    require("Erf" not in readers, "runtimes know a GELU by its Div")


@divide.replace_with
def _(op: Ops, x: Tensor, c: Const) -> Term:
    dtype = c.array().dtype
    return x * op.array((1 / c.array().astype(np.float64)).astype(dtype))


PLUGIN = RuleTransform(divide)
