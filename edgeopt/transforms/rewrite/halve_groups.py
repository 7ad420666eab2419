"""A convolution in groups as one in half as many, its weights beside zeros.

    Conv(x, [W1; W2], group=g)  =  Conv(x, [W1 0; 0 W2], group=g/2)

W1 and W2 are the weights of two neighbouring groups; for all g/2 pairs alike. Done again and again
it ends at a convolution without groups, for any kernel (`dense_groups` does that at once for
pointwise ones).

A negative control, for recipes only: twice the multiplications; the study measured 0.80 of the
speed for 32 -> 16 groups. Where a device computes groups one after the other it may pay.
It must not fire on an odd number of groups, or where weights are no constants. An infinite input
meets zeros that were not there.
ONNX Runtime does nothing of it. The reverse is `blocks_to_groups`.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

halve = Rule("halve_groups")


@halve.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    return op.Conv(x, w, b, _as="conv")


@halve.sound
def _(conv: Node) -> None:
    require(conv.group % 2 == 0, "its groups are not of an even number")


@halve.replace_with
def _(op: Ops, x: Tensor, w: Const, b: Const | None, conv: Node) -> Term:
    rows, group = w.shape[0], conv.group
    second = np.arange(rows) // (rows // group) % 2 == 1
    shape = (rows, *(1 for _ in w.shape[1:]))
    own, other = (op.array(each.astype(w.dtype).reshape(shape)) for each in (~second, second))
    weight = op.Concat(w * own, w * other, axis=1)
    return op.like(conv)(x, weight, b, group=group // 2)


PLUGIN = RuleTransform(halve, control=True)
