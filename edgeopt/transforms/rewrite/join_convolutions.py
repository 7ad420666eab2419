"""Convolutions of one value whose results are joined, as one.

    Concat(Conv(x, W1, b1), Conv(x, W2, b2))  =  Conv(x, [W1; W2], [b1; b2])

It must not fire where they differ in kernel, stride, padding or dilation, with groups, along
another axis than the channels, or where something else reads one of them.
ONNX Runtime does nothing of it; measured 1.15 (1x1) and 1.0-1.1 (3x3).
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

join = Rule("join_convolutions", arities=range(2, 9), shared="something else reads one of them")


@join.pattern
def _(op: Ops, x: Tensor, w: tuple[Const, ...], b: tuple[Const | None, ...], arity: int) -> Term:
    convs = [
        op.Conv(x, w[i], b[i], _as=f"convs{i}", _missing="it does not join convolutions alone")
        for i in range(arity)
    ]
    return op.Concat(*convs, _as="concat")


@join.sound
def _(w: tuple[Const, ...], convs: tuple[Node, ...], concat: Node) -> None:
    first = w[0]
    require(concat.axis in (1, 1 - first.rank), "it does not join channels")
    for weight, conv in zip(w, convs, strict=True):
        require(conv.group == 1, "one has groups")
        require(weight.shape[2:] == first.shape[2:], "their kernels differ")
        for name in ("strides", "pads", "dilations", "auto_pad"):
            same = getattr(conv, name) == getattr(convs[0], name)
            require(same, f"their {name} differ")


@join.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: tuple[Const, ...],
    b: tuple[Const | None, ...],
    convs: tuple[Node, ...],
) -> Term:
    bias: Term | None = None
    if any(b):
        dtype = np.dtype(w[0].dtype)
        rows = [
            held or op.array(np.zeros(each.shape[0], dtype))
            for held, each in zip(b, w, strict=True)
        ]
        bias = op.Concat(*rows, axis=0)
    return op.like(convs[0])(x, op.Concat(*w, axis=0), bias, _name="joined")


PLUGIN = RuleTransform(join)
