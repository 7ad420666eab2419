"""A value is not repeated before an operator that repeats it anyway.

    Expand(x, s) + y  =  x + y          where x is repeated, y has all sizes of the sum already
    Expand(x, Shape(y)) + y  =  x + y   whatever the sizes are

The same for Sub, Mul, Div and Tile. It must not fire where y is broadcast itself along what was
repeated, where sizes are not known to agree, where axes are put in front that y has not, or where
something else reads the repeated value.
ONNX Runtime does nothing of it; measured 1.3 on the two operators.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Call, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

expand = Rule("drop_expand", opset=8, shared="something else reads the repeated value")


def _operator(op: Ops, wide: Call, y: Tensor) -> Term:
    any_of = op.one_of("Add", "Mul", "Sub", "Div")
    return any_of(wide, y, _as="operator", _value="made", _either_way=True)


@expand.pattern
def _(op: Ops, x: Tensor, y: Tensor) -> Term:
    shape = op.Shape(y, _as="asked", _shared=True)
    return _operator(op, op.Expand(x, shape, _as="repeat", _missing="no Expand"), y)


@expand.pattern
def _(op: Ops, x: Tensor, s: Tensor, y: Tensor) -> Term:
    repeat = op.one_of("Expand", "Tile")
    return _operator(op, repeat(x, s, _as="repeat", _value="wide", _missing="no Expand"), y)


@expand.sound
def _(
    x: Tensor,
    y: Tensor,
    repeat: Node,
    made: Tensor,
    s: Tensor | None = None,
    wide: Tensor | None = None,
    asked: Node | None = None,
) -> None:
    if asked is not None:
        require(not asked.attrs, "it asks for some sizes only")
        return
    assert s is not None, "the pattern has it"
    assert wide is not None, "the pattern has it"
    if s.known.load is not None:
        numbers = [int(number) for number in s.known.load().reshape(-1)]
        _require_taken_over(x, y, numbers, repeat.op_type == "Tile")
        return
    require(y.shape == made.shape, "the other operand is broadcast itself")
    own = (1,) * (wide.rank - x.rank) + x.shape
    pairs = zip(own, wide.shape, strict=True)
    require(all(a == 1 or a == b for a, b in pairs), "it repeats more than single elements")


def _require_taken_over(x: Tensor, y: Tensor, numbers: list[int], tiles: bool) -> None:
    """Ask that the other operand has every size that x is repeated to."""
    require(max(x.rank, y.rank) >= len(numbers), "it puts an axis in front")
    for place, number in enumerate(reversed(numbers), start=1):
        if number == 1:
            continue
        own = 1 if place > x.rank else x.shape[-place]
        if own == number and not tiles:
            continue
        require(own == 1, "it repeats more than single elements")
        taken = place <= y.rank and y.shape[-place] == number
        require(taken, "the other operand is broadcast itself")


@expand.replace_with
def _(op: Ops, x: Tensor, y: Tensor, operator: Node) -> Term:
    return op.like(operator)(x, y)


PLUGIN = RuleTransform(expand)
