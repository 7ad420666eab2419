"""A constant factor behind a convolution, in its weights.

    Conv(x, W, b) * c  =  Conv(x, W * c, b * c)

c holds one number, or one a channel on the convolution's channel axis: Caffe's Scale layer, and
detectors' learned scales.
It must not fire when something else reads the convolution's output, when c varies over positions
or over the batch, when c would widen the result, or where weight or bias are no constants.
ONNX Runtime folds it by itself in float; between integers it is a layer in float of its own.
"""

from edgeopt.transforms.rules.conditions import require_one_per_channel
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

fold = Rule(
    "fold_mul",
    shared="something else reads the convolution",
    no_constant={"c": "neither operand is a constant"},
)


@fold.pattern
def _(op: Ops, x: Tensor, w: Const, c: Const, b: Const | None = None) -> Term:
    return op.Conv(x, w, b, _as="conv", _missing="it does not follow a convolution") * c


@fold.sound
def _(c: Const, w: Const) -> None:
    require_one_per_channel(c, w)


@fold.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, c: Const, conv: Node) -> Term:
    row = op.Reshape(c, op.i64(-1))
    weight = w * op.Reshape(c, op.i64(-1, *(1,) * (w.rank - 1)))
    return op.like(conv)(x, weight, b * row if b else None)


PLUGIN = RuleTransform(fold)
