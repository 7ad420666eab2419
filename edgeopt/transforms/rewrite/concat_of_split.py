"""What was split and is joined again.

    Concat(Split(x))  =  x          along the same axis, all parts in order

It must not fire along another axis, in another order or with a part missing, or where something
else reads a part.
ONNX Runtime does nothing of it; measured 1.5 on the two operators.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

joined = Rule("concat_of_split", opset=13, arities=range(2, 9), shared="a part is read elsewhere")


@joined.pattern
def _(op: Ops, x: Tensor, arity: int, sizes: Const | None = None) -> Term:
    parts = op.Split(x, sizes, _as="split", _missing="it does not join the parts of a Split")
    return op.Concat(*parts.outs(arity), _as="concat")


@joined.sound
def _(x: Tensor, split: Node, concat: Node) -> None:
    require(split.axis % x.rank == concat.axis % x.rank, "they act along different axes")


@joined.replace_with
def _(x: Tensor) -> Term:
    return x


PLUGIN = RuleTransform(joined)
