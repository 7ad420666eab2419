"""Softmax over an inner axis, laid so that it runs over the last one.

    Softmax(x, axis=a)  =  B(Softmax(A(x), axis=-1))      A moves axis a to the end, B back

The same for LogSoftmax. It must not fire on the last axis, where every axis behind is of size 1
(nothing to re-lay), where the rank is not known, or below opset 13 (there an axis flattens).
ONNX Runtime's own kernel swaps the two axes element by element: on the 16 bins of a detector's
box distribution (4 x 2100 of them) the re-laid form was measured 8 to 10 times as fast.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

last_axis = Rule("softmax_last_axis", opset=13)


@last_axis.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.one_of("Softmax", "LogSoftmax")(x, _as="soft")


@last_axis.worth
def _(x: Tensor, soft: Node) -> None:
    require(x.known.shape is not None, "the rank of its input is not known")
    inner = x.rank > 0 and soft.axis % x.rank < x.rank - 1
    require(inner, "it runs over the last axis already")
    behind = x.shape[soft.axis % x.rank + 1 :]
    one = all(isinstance(size, int) and size == 1 for size in behind)
    require(not one, "every axis behind it is of size 1")


@last_axis.replace_with
def _(op: Ops, x: Tensor, soft: Node) -> Term:
    axis = soft.axis % x.rank
    forth = (*(i for i in range(x.rank) if i != axis), axis)
    back = tuple(forth.index(i) for i in range(x.rank))
    moved = op.Transpose(x, perm=forth, _name="moved")
    return op.Transpose(op.like(soft)(moved, axis=-1, _name="last"), perm=back)


PLUGIN = RuleTransform(last_axis)
