"""A normalization that was fused with the sum before it, as the two.

    SkipLayerNormalization(x, s, g, b, c)  =  LayerNormalization(x + s + c, g, b)

Also where the sum itself is an output. A gain without offset gets none. ONNX Runtime writes it
where it saves a model that it has optimized, tools for transformers write it, and it fuses the
same again when it loads the two. See `unfuse_conv`.

It must not fire below opset 17 (no LayerNormalization), or where mean or deviation are read.
"""

from edgeopt.transforms.rules.conditions import number_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_norm", opset=17, shared="mean or deviation are read")
_EPSILON = 1e-12


@unfuse.pattern
def _(
    op: Ops, x: Tensor, s: Tensor, g: Tensor, b: Tensor | None = None, c: Tensor | None = None
) -> tuple[Term, ...]:
    fused = op.contrib("SkipLayerNormalization")(x, s, g, b, c, _as="fused")
    made = fused.outs(4, least=1)
    return made[0], made[3]


@unfuse.replace_with
def _(
    op: Ops, x: Tensor, s: Tensor, g: Tensor, b: Tensor | None, c: Tensor | None, fused: Node
) -> tuple[Term, ...]:
    added = op.Add(x if c is None else op.Add(x, c, _name="biased"), s, _name="sum")
    epsilon = number_of(fused, "epsilon", _EPSILON)
    return op.LayerNormalization(added, g, b, axis=-1, epsilon=epsilon), added


PLUGIN = RuleTransform(unfuse)
