"""A Gemm that was fused with the activation behind it, as the two.

    FusedGemm(a, B, c, activation=f)  =  f(Gemm(a, B, c))

ONNX Runtime writes it where it saves a model that it has optimized, and fuses the same again when
it loads the two. See `unfuse_conv`.

It must not fire on an activation that is no operator of the standard, or where a number of the
activation is left out (defaults have changed between versions).
"""

from typing import Any

from edgeopt.transforms.rewrite._activation import Activation, from_names
from edgeopt.transforms.rules.conditions import word_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_gemm", opset=13)


@unfuse.pattern
def _(op: Ops, a: Tensor, b: Tensor, c: Tensor | None = None) -> Term:
    return op.contrib("FusedGemm")(a, b, c, _as="fused")


def _activation(fused: Node) -> Activation:
    return from_names(word_of(fused, "activation"), fused.attrs)


@unfuse.sound
def _(fused: Node) -> None:
    _activation(fused)


@unfuse.replace_with
def _(op: Ops, a: Tensor, b: Tensor, c: Tensor | None, fused: Node) -> Term:
    own = fused.attrs.items()
    kept: dict[str, Any] = {n: value for n, value in own if not n.startswith("activation")}
    return _activation(fused).of(op, op.Gemm(a, b, c, _name="gemm", **kept))


PLUGIN = RuleTransform(unfuse)
