"""A computed gate, or shift, applied before planes are enlarged instead of after it.

    Resize(x) · g  =  Resize(x · g)          Resize(x) + g  =  Resize(x + g)

g has one number a channel and sample, as attention over channels computes it. A pixel of Resize
(nearest or linear) is a mean of pixels of x with weights that sum to 1, the same for all channels.
The gate then touches 1/scale² of the elements. Constants go by `constant_before_resize`.

It must not fire where the gate varies over positions or makes channels of one, with cubic
interpolation or a value for positions outside, where batch or channels are resized too, where
something else reads the enlarged planes, or where planes do not grow.
ONNX Runtime does nothing of it. It is a choice, since it may lose: in the runtime's blocked layout
(x86) a convolution and the linear Resize behind it stay in it, and a product between them ends it.
Measured at scale 2: 1.2-2.1 before a convolution, 1.0-1.2 before nothing, 0.5 where a convolution
stood directly before a linear Resize and nothing behind.
"""

import math

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

gate_first = Rule("gate_before_resize", opset=10, shared="something else reads the enlarged planes")


@gate_first.pattern
def _(
    op: Ops,
    x: Tensor,
    g: Tensor,
    roi: Const | None = None,
    scales: Const | None = None,
    sizes: Const | None = None,
) -> Term:
    planes = op.Resize(x, roi, scales, sizes, _as="resize", _value="planes", _missing="no Resize")
    return op.one_of("Add", "Mul")(planes, g, _as="applied")


def _keeps_batch(x: Tensor, planes: Tensor, scales: Const | None, resize: Node) -> bool:
    """A free batch has no name behind a Resize: what it is multiplied with says that it stays."""
    if scales is not None and scales.shape == (x.rank,) and "axes" not in resize.attrs:
        return bool(scales.array()[0] == 1)
    return planes.shape[0] == x.shape[0]


@gate_first.sound
def _(x: Tensor, g: Tensor, planes: Tensor, scales: Const | None, resize: Node) -> None:
    require(resize.mode in ("nearest", "linear"), "it does not average pixels")
    outside = resize.coordinate_transformation_mode == "tf_crop_and_resize"
    require(not outside, "positions outside have a value of their own")
    require(x.dtype == "float32" and g.dtype == "float32", "it is not in float32")
    require(x.rank > 2 and g.rank == x.rank, "the gate has other axes than the planes")
    require(all(size == 1 for size in g.shape[2:]), "the gate varies over positions")
    require(planes.size(1) == x.size(1), "channels are resized too")
    require(_keeps_batch(x, planes, scales, resize), "the batch is resized too")
    fits = all(own in (1, size) for own, size in zip(g.shape[:2], x.shape[:2], strict=True))
    require(fits, "the gate makes channels or samples of one")


@gate_first.worth
def _(x: Tensor, g: Tensor, planes: Tensor) -> None:
    require(g.known.load is None, "the gate is a constant")
    before, after = (
        math.prod(each.size(axis) for axis in range(2, each.rank)) for each in (planes, x)
    )
    require(after < before, "the planes do not grow")


@gate_first.replace_with
def _(
    op: Ops,
    x: Tensor,
    g: Tensor,
    roi: Const | None,
    scales: Const | None,
    sizes: Const | None,
    resize: Node,
    applied: Node,
) -> Term:
    small = op.like(applied)(x, g, _name="applied")
    return op.like(resize)(small, roi, scales, sizes, _name="resized")


PLUGIN = RuleTransform(gate_first)
