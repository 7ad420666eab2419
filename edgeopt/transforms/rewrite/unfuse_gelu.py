"""The runtime's own smooth activations, spelled in operators of the standard.

    Gelu(x)       =  x · (1 + Erf(x / sqrt(2))) · 1/2             BiasGelu(x, b)  =  Gelu(x + b)
    FastGelu(x)   =  x · (1 + Tanh(sqrt(2/π) · x · (1 + 0.044715 · x²))) · 1/2
    QuickGelu(x)  =  x · Sigmoid(alpha · x)

(`Gelu` here is that of `com.microsoft`; FastGelu may have a bias, too.) From opset 20 on the rule
`gelu` makes the standard's Gelu of the first two. ONNX Runtime writes them where it saves a model
that it has optimized, tools for transformers write FastGelu, and it fuses the same again when it
loads the spelled forms. See `unfuse_conv`.

It must not fire on operators of that name in the standard, or where x has an unknown type.
"""

import math

from edgeopt.transforms.rules.conditions import number_of, require_kernel_for
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term, total
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_gelu", opset=13)
_CUBIC = 0.044715


@unfuse.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.contrib("Gelu")(x, _as="fused")


@unfuse.pattern
def _(op: Ops, x: Tensor, b: Tensor) -> Term:
    return op.contrib("BiasGelu")(x, b, _as="fused")


@unfuse.pattern
def _(op: Ops, x: Tensor, b: Tensor | None = None) -> Term:
    return op.contrib("FastGelu")(x, b, _as="fused")


@unfuse.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.contrib("QuickGelu")(x, _as="fused")


@unfuse.sound
def _(x: Tensor) -> None:
    require_kernel_for(x)


@unfuse.replace_with
def _(op: Ops, x: Tensor, fused: Node, b: Tensor | None = None) -> Term:
    source = total(x, b)
    assert source is not None, "x is there"
    if fused.op_type == "QuickGelu":
        alpha = number_of(fused, "alpha", 1.702)
        return source * op.Sigmoid(source if alpha == 1 else source * alpha)
    if fused.op_type == "FastGelu":
        curve = (op.Mul(source, source, _name="square") * _CUBIC) + 1.0
        gate = op.Tanh(op.Mul(source, math.sqrt(2 / math.pi), _name="slope") * curve)
    else:
        gate = op.Erf(source / math.sqrt(2))
    return op.Mul(source * (gate + 1.0), 0.5, _name="gelu")


PLUGIN = RuleTransform(unfuse)
