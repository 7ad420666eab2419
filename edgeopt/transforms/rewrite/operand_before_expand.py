"""An operand that is the same along what is repeated, applied before it is repeated.

    Expand(x, s) · g  =  Expand(x · g, s)          g has one element where x is repeated

The same for Add, Sub and Div. The operator then works on the elements of x instead of all copies;
what reads the copies may take them in by itself (`drop_expand`).

It must not fire where g varies along what is repeated, where g widens x, where both would have to
be repeated, where sizes are not known to agree, or where something else reads the copies.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

first = Rule("operand_before_expand", opset=8, shared="something else reads the copies")


@first.pattern
def _(op: Ops, x: Tensor, s: Tensor, g: Tensor) -> Term:
    wide = op.Expand(x, s, _value="wide", _missing="no Expand")
    operator = op.one_of("Add", "Mul", "Sub", "Div")
    return operator(wide, g, _as="applied", _value="made", _either_way=True)


@first.sound
def _(x: Tensor, g: Tensor, wide: Tensor, made: Tensor) -> None:
    require(made.shape == wide.shape, "the operand widens it")
    own, beside = (_aligned(each, wide.rank) for each in (x, g))
    pairs = zip(own, beside, strict=True)
    require(all(size in (1, mine) for mine, size in pairs), "the operand varies over the copies")


@first.worth
def _(x: Tensor, wide: Tensor) -> None:
    require(_aligned(x, wide.rank) != wide.shape, "nothing is repeated")


def _aligned(value: Tensor, rank: int) -> tuple[object, ...]:
    """Sizes with ones before them, as broadcasting has it."""
    return (1,) * (rank - value.rank) + value.shape


@first.replace_with
def _(op: Ops, x: Tensor, s: Tensor, g: Tensor, applied: Node) -> Term:
    return op.Expand(op.like(applied)(x, g, _name="applied"), s, _name="expanded")


PLUGIN = RuleTransform(first)
