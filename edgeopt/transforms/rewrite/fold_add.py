"""A constant added behind a convolution, as its bias.

    Conv(x, W, b) + c  =  Conv(x, W, b + c)

c holds one number, or one a channel on the convolution's channel axis.
It must not fire when something else reads the convolution's output, when c varies over positions
or over the batch, when c would widen the result, or where weight or bias are no constants.
ONNX Runtime folds it by itself in float; quantization and every rule that looks for a convolution
directly before something else need it done.
"""

from edgeopt.transforms.rules.conditions import require_one_per_channel
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term, total
from edgeopt.transforms.rules.transform import RuleTransform

fold = Rule(
    "fold_add",
    shared="something else reads the convolution",
    no_constant={"c": "neither operand is a constant"},
)


@fold.pattern
def _(op: Ops, x: Tensor, w: Const, c: Const, b: Const | None = None) -> Term:
    return op.Conv(x, w, b, _as="conv", _missing="it does not follow a convolution") + c


@fold.sound
def _(c: Const, w: Const) -> None:
    require_one_per_channel(c, w)


@fold.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, c: Const, conv: Node) -> Term:
    row = op.Expand(op.Reshape(c, op.i64(-1)), op.i64(w.shape[0]))
    return op.like(conv)(x, w, total(b, row))


PLUGIN = RuleTransform(fold)
