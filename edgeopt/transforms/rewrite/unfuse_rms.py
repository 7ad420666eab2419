"""A normalization by the root mean square that was fused with the sum before it, spelled.

    SkipSimplifiedLayerNormalization(x, s, g, c)  =  t / sqrt(mean(t²) + eps) · g     t = x + s + c

Also where the sum itself is an output. Language models are built with it; ONNX Runtime fuses the
spelled form again when it loads it. See `unfuse_conv`.

It must not fire where mean or deviation are read.
"""

from edgeopt.transforms.rules.conditions import number_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_rms", opset=18, shared="mean or deviation are read")
_EPSILON = 1e-12


@unfuse.pattern
def _(op: Ops, x: Tensor, s: Tensor, g: Tensor, c: Tensor | None = None) -> tuple[Term, ...]:
    fused = op.contrib("SkipSimplifiedLayerNormalization")(x, s, g, c, _as="fused")
    made = fused.outs(4, least=1)
    return made[0], made[3]


@unfuse.replace_with
def _(op: Ops, x: Tensor, s: Tensor, g: Tensor, c: Tensor | None, fused: Node) -> tuple[Term, ...]:
    added = op.Add(x if c is None else op.Add(x, c, _name="biased"), s, _name="sum")
    mean = op.ReduceMean(added**2.0, op.i64(-1), keepdims=1)
    root = op.Sqrt(op.Add(mean, number_of(fused, "epsilon", _EPSILON), _name="floor"))
    return op.Mul(op.Div(added, root), g, _name="norm"), added


PLUGIN = RuleTransform(unfuse)
