"""A pointwise convolution before planes are enlarged instead of after it.

    Conv1x1(Resize(x), W, b)  =  Resize(Conv1x1(x, W, b))

A pixel of Resize (nearest or linear) is a mean of pixels of x with weights that sum to 1, the same
for all channels. The convolution then runs at 1/scale² of the positions: decoders and
segmentation heads.

It must not fire with a larger kernel, a stride, padding or groups, with cubic interpolation or a
value for positions outside (they do not average pixels of x), where batch or channels are resized
too, where planes shrink, or where it makes more than twice as many channels (the Resize would
take longer).
ONNX Runtime does nothing of it; measured 1.7 at scale 2.
"""

import numpy as np

from edgeopt.transforms.rules.conditions import (
    require_average,
    require_growth,
    require_pointwise,
)
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

conv_first = Rule("conv1x1_before_resize", shared="something else reads the enlarged planes")
_MOST_GROWTH = 2


@conv_first.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    b: Const | None = None,
    roi: Const | None = None,
    scales: Const | None = None,
    sizes: Const | None = None,
) -> Term:
    planes = op.Resize(x, roi, scales, sizes, _as="resize", _value="planes", _missing="no Resize")
    return op.Conv(planes, w, b, _as="conv")


@conv_first.sound
def _(
    x: Tensor,
    planes: Tensor,
    w: Const,
    scales: Const | None,
    sizes: Const | None,
    conv: Node,
    resize: Node,
) -> None:
    require_pointwise(conv, w)
    require_average(resize)
    plain = resize.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    plain = plain and "axes" not in resize.attrs
    require(plain, "it names axes or keeps an aspect ratio")
    # The name of a free batch does not survive shape inference of Resize.
    batch = x.size(0) == sizes.array()[0] if sizes else bool(scales and scales.array()[0] == 1)
    require(batch and planes.size(1) == x.size(1), "batch or channels are resized too")


@conv_first.worth
def _(x: Tensor, planes: Tensor, w: Const) -> None:
    require_growth(x, planes)
    require(w.shape[0] <= _MOST_GROWTH * w.shape[1], "it makes more channels than it reads")


@conv_first.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    b: Const | None,
    roi: Const | None,
    scales: Const | None,
    sizes: Const | None,
    conv: Node,
    resize: Node,
) -> Term:
    made: Term | None = sizes
    if sizes is not None:
        wanted = np.array(sizes.array())
        wanted[1] = w.shape[0]
        made = op.array(wanted)
    small = op.like(conv)(x, w, b, _name="conv")
    return op.like(resize)(small, roi, scales, made, _name="resized")


PLUGIN = RuleTransform(conv_first)
