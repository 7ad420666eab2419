"""A number for every channel applied before planes are enlarged instead of after it.

    Resize(x) · c  =  Resize(x · c)          Resize(x) + c  =  Resize(x + c)

A pixel of Resize (nearest or linear) is a mean of pixels of x with weights that sum to 1, the same
for all channels. The constant then touches 1/scale² of the elements, and stands where it folds
into a convolution before it.

It must not fire where the constant varies over positions or over the batch, or makes channels of
one, with cubic interpolation or a value for positions outside, where something else reads the
enlarged planes, or where planes do not grow.
ONNX Runtime does nothing of it.
"""

import math

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

constant_first = Rule(
    "constant_before_resize", opset=10, shared="something else reads the enlarged planes"
)


@constant_first.pattern
def _(
    op: Ops,
    x: Tensor,
    c: Const,
    roi: Const | None = None,
    scales: Const | None = None,
    sizes: Const | None = None,
) -> Term:
    planes = op.Resize(x, roi, scales, sizes, _as="resize", _value="planes", _missing="no Resize")
    return op.one_of("Add", "Mul")(planes, c, _as="applied")


@constant_first.sound
def _(x: Tensor, c: Const, planes: Tensor, resize: Node) -> None:
    require(resize.mode in ("nearest", "linear"), "it does not average pixels")
    outside = resize.coordinate_transformation_mode == "tf_crop_and_resize"
    require(not outside, "positions outside have a value of their own")
    require(x.dtype == "float32" and c.dtype == "float32", "it is not in float32")
    shape = (1,) * (x.rank - c.rank) + c.shape
    require(len(shape) == x.rank, "the constant has more axes than the planes")
    same = shape[0] == 1 and all(size == 1 for size in shape[2:])
    require(same, "the constant varies over positions or over the batch")
    require(x.rank > 2 and planes.size(1) == x.size(1), "channels are resized too")
    require(shape[1] in (1, x.size(1)), "the constant makes channels of one")


@constant_first.worth
def _(x: Tensor, planes: Tensor) -> None:
    before, after = (
        math.prod(each.size(axis) for axis in range(2, each.rank)) for each in (planes, x)
    )
    require(after < before, "the planes do not grow")


@constant_first.replace_with
def _(
    op: Ops,
    x: Tensor,
    c: Const,
    roi: Const | None,
    scales: Const | None,
    sizes: Const | None,
    resize: Node,
    applied: Node,
) -> Term:
    small = op.like(applied)(x, c, _name="applied")
    return op.like(resize)(small, roi, scales, sizes, _name="resized")


PLUGIN = RuleTransform(constant_first)
