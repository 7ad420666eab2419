"""An operand that is the same at every position, applied before planes are enlarged."""

from edgeopt.transforms.rules.conditions import require_average, require_growth
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term

operand_first = Rule(
    "operand_before_resize", opset=10, shared="something else reads the enlarged planes"
)
"""Of any operand: `constant_before_resize` and `gate_before_resize` narrow it."""


@operand_first.pattern
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


@operand_first.sound
def _(x: Tensor, g: Tensor, planes: Tensor, scales: Const | None, resize: Node) -> None:
    require_average(resize)
    require(x.dtype == "float32" and g.dtype == "float32", "it is not in float32")
    require(g.rank <= x.rank > 2, "the operand has more axes than the planes")
    batch, channels, *positions = (1,) * (x.rank - g.rank) + g.shape
    require(all(size == 1 for size in positions), "the operand varies over positions")
    require(planes.size(1) == x.size(1), "channels are resized too")
    same = batch == 1 or _keeps_batch(x, planes, scales, resize)
    require(same, "the batch is resized too")
    fits = batch in (1, x.shape[0]) and channels in (1, x.size(1))
    require(fits, "the operand makes channels or samples of one")


def _keeps_batch(x: Tensor, planes: Tensor, scales: Const | None, resize: Node) -> bool:
    """A free batch has no name behind a Resize: its factor says that it stays."""
    if scales is not None and scales.shape == (x.rank,) and "axes" not in resize.attrs:
        return bool(scales.array()[0] == 1)
    return planes.shape[0] == x.shape[0]


@operand_first.worth
def _(x: Tensor, planes: Tensor) -> None:
    require_growth(x, planes)


@operand_first.replace_with
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
