"""A depthwise convolution and the pointwise one behind it as one dense convolution.

    Conv1x1(Conv(x, D, group = channels), W)  =  Conv(x, W · D)

A negative control, for recipes only: as many windows, channels times the multiplications; measured
0.34 of the speed. Where a device has no depthwise kernel it may pay.
It must not fire when something else reads the value between them, with several outputs a channel,
with anything between, or where the second is not pointwise.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.conditions import require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term, total
from edgeopt.transforms.rules.transform import RuleTransform

dense = Rule("depthwise_into_dense", shared="something else reads the value between them")


@dense.pattern
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None = None, b2: Const | None = None
) -> Term:
    inner = op.Conv(x, w1, b1, _as="first", _missing="it does not follow a convolution")
    return op.Conv(inner, w2, b2, _as="second")


@dense.sound
def _(first: Node, second: Node, w1: Const, w2: Const) -> None:
    depthwise = first.group == w1.shape[0] and w1.shape[1] == 1 and first.group > 1
    require(depthwise, "the first is not depthwise, or makes several of a channel")
    require_pointwise(second, w2)


@dense.replace_with
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None, b2: Const | None, first: Node
) -> Term:
    made, middle = w2.shape[:2]
    weight = w2 * op.Reshape(w1, op.i64(1, *w1.shape[:1], *w1.shape[2:]))
    mix = op.Reshape(w2, op.i64(made, middle))
    return op.like(first)(x, weight, total(mix @ b1 if b1 else None, b2), group=1)


PLUGIN = RuleTransform(dense, control=True)
