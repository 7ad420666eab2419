"""A convolution that was fused with what follows it, as the operators that it was made of.

    FusedConv(x, W, b, z, activation=f)  =  f(Conv(x, W, b) + z)

ONNX Runtime writes it where it saves a model that it has optimized (`optimized_model_filepath`).
Behind it the rules, pruning and quantization see a plain convolution, other runtimes take the
model, and ONNX Runtime fuses the same again when it loads it.

It must not fire on an activation that is no operator of the standard, or with other numbers than
the activation takes.
"""

from typing import Any

from edgeopt.transforms.rewrite._activation import Activation, from_list
from edgeopt.transforms.rules.conditions import word_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_conv", opset=13)
_OWN = frozenset({"activation", "activation_params"})


@unfuse.pattern
def _(op: Ops, x: Tensor, w: Tensor, b: Const | None = None, z: Tensor | None = None) -> Term:
    return op.contrib("FusedConv")(x, w, b, z, _as="fused")


def _activation(fused: Node) -> Activation:
    numbers: Any = fused.attrs.get("activation_params", ())
    return from_list(word_of(fused, "activation"), numbers)


@unfuse.sound
def _(fused: Node) -> None:
    _activation(fused)


@unfuse.replace_with
def _(op: Ops, x: Tensor, w: Tensor, b: Const | None, z: Tensor | None, fused: Node) -> Term:
    kept: dict[str, Any] = {n: value for n, value in fused.attrs.items() if n not in _OWN}
    made: Term = op.Conv(x, w, b, _name="conv", **kept)
    return _activation(fused).of(op, made if z is None else made + z)


PLUGIN = RuleTransform(unfuse)
