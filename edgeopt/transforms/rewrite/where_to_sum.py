"""A constant mask before a Softmax as something that is added.

    Softmax(Where(m, x, -c))   =  Softmax(x + where(m, 0, -c))          c >= 1e4
    Softmax(Where(!m, -c, x))  =  Softmax(x + where(m, 0, -c))          as masked_fill is exported

What is masked becomes exp(-c) = 0 either way.
It must not fire with a computed mask, with a smaller or infinite c (an infinite one makes NaN of
x = inf), where something else reads what is masked, where a row is masked whole (both sides then
weigh its elements differently), or where x has fewer elements than the result.
Masked elements that are NaN stay NaN. ONNX Runtime does nothing of it; measured 1.2.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import Array, require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_COMPUTED = "the mask or its number is computed"
mask = Rule(
    "where_to_sum",
    opset=13,
    shared="something else reads what is masked",
    no_constant=dict.fromkeys(("m", "gone", "c"), _COMPUTED),
)
_LEAST = 1e4


@mask.pattern
def _(op: Ops, x: Tensor, m: Const, c: Const) -> Term:
    masked = op.Where(m, x, c, _value="masked", _missing="no Where before it")
    return op.Softmax(masked, _as="softmax")


@mask.pattern
def _(op: Ops, x: Tensor, gone: Const, c: Const) -> Term:
    masked = op.Where(gone, c, x, _value="masked", _missing="no Where before it")
    return op.Softmax(masked, _as="softmax")


@mask.sound
def _(
    x: Tensor,
    c: Const,
    masked: Tensor,
    softmax: Node,
    m: Const | None = None,
    gone: Const | None = None,
) -> None:
    numbers = c.array()
    large = bool((numbers <= -_LEAST).all()) and bool(np.isfinite(numbers).all())
    require(large, "the number is not large enough, or infinite")
    require(x.dtype == "float32", "it is not in float32")
    require(x.shape == masked.shape, "it is broadcast itself")
    last = softmax.axis in (-1, x.rank - 1)
    kept = _kept(m, gone)
    rows = kept.any(axis=-1) if kept.ndim else kept
    require(last and bool(rows.all()), "a row may be masked whole")


@mask.replace_with
def _(
    op: Ops,
    x: Tensor,
    c: Const,
    softmax: Node,
    m: Const | None = None,
    gone: Const | None = None,
) -> Term:
    numbers = c.array()
    added = np.where(_kept(m, gone), np.zeros_like(numbers), numbers).astype(numbers.dtype)
    return op.like(softmax)(x + op.array(added))


def _kept(m: Const | None, gone: Const | None) -> Array:
    """Where x is kept, by whichever of the two masks is written."""
    if m is not None:
        return m.array()
    assert gone is not None, "one of the patterns has bound its mask"
    return np.logical_not(gone.array())


PLUGIN = RuleTransform(mask)
