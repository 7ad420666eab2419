"""Average pooling before a pointwise convolution instead of after it.

    AveragePool(Conv1x1(x, W, b))  =  Conv1x1(AveragePool(x), W, b)

Both are linear and act on different axes, and the mean of a constant bias is the bias. The
convolution then runs at 1/stride² of the positions: the transitions of DenseNet.

It must not fire with a larger kernel, a stride, padding or groups of the convolution, with
anything between the two (an activation is not linear), where padded zeros count in the mean
(they are not b), or where the pooling has no stride (nothing to gain).
ONNX Runtime does nothing of it; measured 1.3.
"""

from edgeopt.transforms.rules.conditions import integers_of, require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

average_first = Rule("average_before_conv1x1", shared="something else reads the convolution")


@average_first.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    conv = op.Conv(x, w, b, _as="conv", _missing="it does not pool a convolution")
    return op.AveragePool(conv, _as="pool")


@average_first.sound
def _(conv: Node, w: Const, b: Const | None, pool: Node) -> None:
    require_pointwise(conv, w)
    counted = bool(pool.attrs.get("count_include_pad", 0))
    automatic = pool.attrs.get("auto_pad", "NOTSET") != "NOTSET"
    padded = any(integers_of(pool, "pads", None)) or automatic
    rounded = bool(pool.attrs.get("ceil_mode", 0))
    require(not (counted and (padded or rounded) and b is not None), "padded zeros count")


@average_first.worth
def _(pool: Node) -> None:
    require(any(step > 1 for step in pool.strides), "the pooling has no stride: nothing to gain")


@average_first.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, conv: Node, pool: Node) -> Term:
    return op.like(conv)(op.like(pool)(x, _name="pooled"), w, b, _name="conv")


PLUGIN = RuleTransform(average_first)
