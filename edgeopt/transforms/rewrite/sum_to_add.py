"""A Sum of several values as a chain of Adds.

    Sum(a, b, c)  =  (a + b) + c

It must not fire on a Sum of one value.
Runtimes fuse the residual Add into a convolution and have integer kernels for it, for Sum neither;
Caffe2's exporter writes every residual connection as a Sum.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.terms import Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

add = Rule("sum_to_add", opset=8, arities=range(2, 17))


@add.pattern
def _(op: Ops, x: tuple[Tensor, ...]) -> Term:
    return op.Sum(*x, _missing="it has one operand only")


@add.replace_with
def _(op: Ops, x: tuple[Tensor, ...]) -> Term:
    total: Term = x[0]
    for index, each in enumerate(x[1:], start=1):
        last = index == len(x) - 1
        total = op.Add(total, each, _name="" if last else str(index))
    return total


PLUGIN = RuleTransform(add)
