"""A single pixel is not enlarged before an operator that repeats it anyway.

    Resize(g) · y  =  g · y          g has one pixel; y has the size of the planes already

The same for Add, Sub and Div. So gates and image-level features are brought to the size of the
planes that they meet (`F.interpolate` of a pooled value).

It must not fire where g has more than one pixel, where y is broadcast itself over positions, where
batch or channels are resized too, with cubic interpolation or a value for positions outside, or
where something else reads the enlarged planes.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.conditions import require_average
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

drop = Rule("drop_resize", opset=11, shared="something else reads the enlarged planes")


@drop.pattern
def _(
    op: Ops,
    g: Tensor,
    y: Tensor,
    roi: Const | None = None,
    scales: Const | None = None,
    sizes: Const | None = None,
) -> Term:
    wide = op.Resize(g, roi, scales, sizes, _as="resize", _value="planes", _missing="no Resize")
    return op.one_of("Add", "Mul", "Sub", "Div")(wide, y, _as="operator", _either_way=True)


@drop.sound
def _(g: Tensor, y: Tensor, planes: Tensor, resize: Node) -> None:
    require_average(resize)
    require(g.rank > 2 and y.rank == g.rank, "the operands have other axes")
    require(all(size == 1 for size in g.shape[2:]), "it has more than one pixel")
    require(planes.size(1) == g.size(1), "channels are resized too")
    require(planes.size(0) == g.size(0), "the batch is resized too")
    require(y.shape[2:] == planes.shape[2:], "the other operand is broadcast itself")


@drop.replace_with
def _(op: Ops, g: Tensor, y: Tensor, operator: Node) -> Term:
    return op.like(operator)(g, y)


PLUGIN = RuleTransform(drop)
