"""A padding with zeros before a convolution, as the convolution's own.

    Conv(Pad(x, p, 0), W, pads q)  =  Conv(x, W, pads p + q)

Keras and Caffe models pad so before strided convolutions. ONNX Runtime does the same when it loads
a model in float, but not across the codes of a quantized one; and rules that look at the pads of a
convolution meet one form.

It must not fire with another number or mode, where batch or channels are padded too or anything is
cut off, with `auto_pad`, where amounts are computed, or where something else reads the padded
planes.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

padding = Rule(
    "pad_into_conv",
    opset=11,
    shared="something else reads the padded planes",
    no_constant={"amounts": "its padding is computed", "number": "its padding is computed"},
)


@padding.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    amounts: Const,
    b: Const | None = None,
    number: Const | None = None,
) -> Term:
    padded = op.Pad(x, amounts, number, _as="pad", _missing="it convolves no padded planes")
    return op.Conv(padded, w, b, _as="conv")


@padding.sound
def _(w: Const, amounts: Const, number: Const | None, pad: Node, conv: Node) -> None:
    require(pad.attrs.get("mode", "constant") == "constant", "it pads with what is there")
    require(number is None or number.scalar() == 0.0, "it pads with another number than 0")
    sides = amounts.array().reshape(2, -1)
    require(sides.shape[1] == w.rank, "it names axes")
    within = not sides[:, :2].any() and bool((sides >= 0).all())
    require(within, "it pads batch or channels, or cuts")
    require(conv.auto_pad in ("NOTSET", "VALID"), "the convolution pads by itself")


@padding.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, amounts: Const, conv: Node) -> Term:
    added = amounts.array().reshape(2, -1)[:, 2:].reshape(-1)
    pads = [int(one) for one in np.add(added, conv.pads)]
    return op.like(conv)(x, w, b, auto_pad="NOTSET", pads=pads)


PLUGIN = RuleTransform(padding)
