"""Two convolutions of one value as one, split behind.

    Conv(x, W1, b1), Conv(x, W2, b2)  =  Split(Conv(x, [W1; W2], [b1; b2]))

A negative control, for recipes only: the classical merge for graphics processors, measured 0.93-1.0
of the speed on a processor (0.64-0.78 where a smaller kernel is enlarged first).
It must not fire where they differ in kernel, stride, padding or dilation, or with groups.
ONNX Runtime does nothing of it.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

merge = Rule("siblings_to_split", opset=13)


@merge.pattern
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None = None, b2: Const | None = None
) -> tuple[Term, Term]:
    return op.Conv(x, w1, b1, _as="one"), op.Conv(x, w2, b2, _as="other")


@merge.sound
def _(one: Node, other: Node, w1: Const, w2: Const) -> None:
    require(one.group == 1 and other.group == 1, "one has groups")
    require(w1.shape[1:] == w2.shape[1:], "their kernels differ")
    for name in ("strides", "pads", "dilations", "auto_pad"):
        require(getattr(one, name) == getattr(other, name), f"their {name} differ")


@merge.replace_with
def _(
    op: Ops, x: Tensor, w1: Const, w2: Const, b1: Const | None, b2: Const | None, one: Node
) -> tuple[Term, Term]:
    bias: Term | None = None
    if b1 is not None or b2 is not None:
        dtype = np.dtype(w1.dtype)
        rows = [
            held or op.array(np.zeros(weight.shape[0], dtype))
            for held, weight in ((b1, w1), (b2, w2))
        ]
        bias = op.Concat(*rows, axis=0)
    joined = op.like(one)(x, op.Concat(w1, w2, axis=0), bias, _name="joined")
    parts = op.Split(joined, op.i64(w1.shape[0], w2.shape[0]), axis=1).outs(2)
    return parts[0], parts[1]


PLUGIN = RuleTransform(merge, control=True)
