"""A layer whose channels are split as several layers, one a part.

    Split(Conv(x, [W1; W2], [b1; b2]))  =  Conv(x, W1, b1), Conv(x, W2, b2)
    Split(x [A B] + [a b])              =  x A + a, x B + b            Gemm too

The reverse of `siblings_to_split`. The parts then have weights, precisions and widths of their own
(queries, keys and values under one scale each; a part that nobody reads goes with its work), and
no copy of the result is made; x is read once a part.

It must not fire where something else reads the whole result, along another axis than the channels,
with groups, where weights are no constants, or with more than eight parts.
ONNX Runtime does nothing of it; the study measured 0.93-1.05 for the merged form.
"""

import math

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

apart = Rule(
    "split_to_siblings",
    opset=13,
    arities=range(2, 9),
    shared="something else reads the whole result",
)
_MISSING = "it splits no result of a layer"


@apart.pattern
def _(
    op: Ops, x: Tensor, w: Const, arity: int, b: Const | None = None, sizes: Const | None = None
) -> tuple[Term, ...]:
    whole = op.one_of("Conv", "Gemm")(x, w, b, _as="layer", _value="whole", _missing=_MISSING)
    return op.Split(whole, sizes, _as="split").outs(arity)


@apart.pattern
def _(op: Ops, x: Tensor, w: Const, arity: int, sizes: Const | None = None) -> tuple[Term, ...]:
    whole = op.MatMul(x, w, _as="layer", _value="whole", _missing=_MISSING)
    return op.Split(whole, sizes, _as="split").outs(arity)


@apart.pattern
def _(
    op: Ops, x: Tensor, w: Const, b: Const, arity: int, sizes: Const | None = None
) -> tuple[Term, ...]:
    product = op.MatMul(x, w, _as="layer", _missing=_MISSING)
    whole = op.Add(product, b, _value="whole", _missing=_MISSING)
    return op.Split(whole, sizes, _as="split").outs(arity)


@apart.sound
def _(w: Const, whole: Tensor, layer: Node, split: Node, arity: int, sizes: Const | None) -> None:
    axis = 1 if layer.op_type == "Conv" else whole.rank - 1
    require(split.axis % whole.rank == axis, "it splits along another axis than the channels")
    require(layer.op_type != "Conv" or layer.group == 1, "it has groups")
    require(w.rank >= 2, "it multiplies with a vector")
    parts = _parts(w.shape[_outer(layer, w)], arity, sizes)
    require(all(part > 0 for part in parts), "a part would be empty")


@apart.sound
def _(w: Const, layer: Node, b: Const | None = None) -> None:
    if b is not None and b.rank:
        fits = b.shape[-1] in (1, w.shape[_outer(layer, w)])
        require(fits, "the bias is not one number a channel")


@apart.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    layer: Node,
    arity: int,
    sizes: Const | None,
    b: Const | None = None,
) -> tuple[Term, ...]:
    axis, found, start = _outer(layer, w), list[Term](), 0
    for index, size in enumerate(_parts(w.shape[axis], arity, sizes)):
        bounds = op.i64(start), op.i64(start + size)
        weight = op.Slice(w, *bounds, op.i64(axis), _name=f"weight{index}")
        bias: Term | None = b
        if b is not None and b.rank and b.shape[-1] != 1:
            bias = op.Slice(b, *bounds, op.i64(b.rank - 1), _name=f"bias{index}")
        name, make = f"part{index}", op.like(layer)
        if layer.op_type != "MatMul":
            found.append(make(x, weight, bias, _name=name))
        else:
            product = make(x, weight, _name=name)
            found.append(product if bias is None else op.Add(product, bias, _name=f"{name}_sum"))
        start += size
    return tuple(found)


def _outer(layer: Node, w: Const) -> int:
    """The axis of the weight that makes channels."""
    turned = layer.op_type == "Gemm" and bool(layer.transB)
    return 0 if layer.op_type == "Conv" or turned else w.rank - 1


def _parts(total: int, arity: int, sizes: Const | None) -> list[int]:
    """Channels of each part; without sizes all are equal, but for the last one."""
    if sizes is not None:
        return [int(size) for size in sizes.array().reshape(-1)]
    each = math.ceil(total / arity)
    return [*(each for _ in range(arity - 1)), total - each * (arity - 1)]


PLUGIN = RuleTransform(apart)
