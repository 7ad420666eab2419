"""The runtime's own attention, spelled in operators of the standard.

    Attention(x, W, b, mask)           =  heads of  x Wq + bq,  x Wk + bk,  x Wv + bv
    MultiHeadAttention(q, k, v, b, a)  =  heads of  q + bq,  k + bk,  v + bv

where heads of q, k, v is Softmax(q kᵀ / sqrt(size) + a) v for each head, side by side. A mask of
one number a key is an addend of 0 where it is above 0, else the operator's filter value. Queries,
keys and values come apart, as pruning and quantization want them. ONNX Runtime writes the first
where it saves an optimized BERT; tools for transformers write both. See `unfuse_conv`. It is a
choice: the runtime makes no attention of the spelled form again (0.88 to 1.02 of the speed, four
heads of 64 on 128 rows).

It must not fire with keys of before (past, present), with padding that is given otherwise than as a
mask of one number a key, where later keys are hidden (`unidirectional`), with rotary positions, or
where heads, widths or weights are not known.
"""

import math
from typing import Any

import numpy as np

from edgeopt.transforms.rules.conditions import number_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_attention", opset=13, shared="what it keeps for the next step is read")
_FILTER = -10_000.0


@unfuse.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None, mask: Tensor | None = None) -> Term:
    return op.contrib("Attention")(x, w, b, mask, _as="fused")


@unfuse.pattern
def _(
    op: Ops, q: Tensor, k: Tensor, v: Tensor, b: Const | None = None, a: Tensor | None = None
) -> Term:
    return op.contrib("MultiHeadAttention")(q, k, v, b, None, a, _as="fused")


def _heads(fused: Node) -> int:
    heads: Any = fused.attrs.get("num_heads", 0)
    return int(heads)


def _widths(fused: Node, w: Const) -> tuple[int, int, int]:
    """Of queries, keys and values, side by side in a weight."""
    written: Any = fused.attrs.get("qkv_hidden_sizes", ())
    each = w.shape[1] // 3
    return (written[0], written[1], written[2]) if written else (each, each, each)


@unfuse.sound
def _(
    fused: Node,
    x: Tensor | None = None,
    w: Const | None = None,
    mask: Tensor | None = None,
    q: Tensor | None = None,
    k: Tensor | None = None,
    v: Tensor | None = None,
) -> None:
    for name in ("unidirectional", "do_rotary", "past_present_share_buffer"):
        require(not fused.attrs.get(name, 0), f"{name} is set")
    heads = _heads(fused)
    require(heads > 0, "the number of heads is not known")
    if x is not None and w is not None:
        require(x.dtype == "float32", "it is not in float32")
        require(x.rank == 3 and w.rank == 2, "it reads no rows of several samples")
        widths = _widths(fused, w)
        require(widths[0] == widths[1], "queries and keys are not of one width")
        if mask is not None:
            require(mask.rank == 2 and mask.dtype == "int32", "the mask is not one a key")
    else:
        assert q is not None and k is not None and v is not None, "one of the two fits"  # noqa: PT018
        require(q.dtype == "float32", "it is not in float32")
        require(q.rank == k.rank == v.rank == 3, "heads are given apart, or packed")
        widths = (q.size(2), k.size(2), v.size(2))
    require(all(width % heads == 0 for width in widths), "heads are not of one width")


@unfuse.replace_with
def _(
    op: Ops,
    fused: Node,
    x: Tensor | None = None,
    w: Const | None = None,
    b: Const | None = None,
    mask: Tensor | None = None,
    q: Tensor | None = None,
    k: Tensor | None = None,
    v: Tensor | None = None,
    a: Tensor | None = None,
) -> Term:
    given: list[Term]
    if x is not None and w is not None:
        widths = _widths(fused, w)
        parts = [_columns(op, w, widths, index) for index in range(3)]
        given = [op.MatMul(x, part, _name=n) for n, part in zip("qkv", parts, strict=True)]
    else:
        assert q is not None and k is not None and v is not None, "one of the two fits"  # noqa: PT018
        widths = (q.size(2), k.size(2), v.size(2))
        given = [q, k, v]
    if b is not None:
        rows = [_columns(op, b, widths, index) for index in range(3)]
        given = [op.Add(one, row) for one, row in zip(given, rows, strict=True)]
    addend = (
        a if mask is None else _addend(op, mask, number_of(fused, "mask_filter_value", _FILTER))
    )
    return _attention(op, given, widths, addend, fused)


def _columns(op: Ops, whole: Const, widths: tuple[int, int, int], index: int) -> Term:
    """What belongs to queries, keys or values, of weights or of a bias."""
    start, axis = sum(widths[:index]), whole.rank - 1
    return op.Slice(whole, op.i64(start), op.i64(start + widths[index]), op.i64(axis))


def _addend(op: Ops, mask: Tensor, filtered: float) -> Term:
    """What hides keys: [batch, 1, 1, keys]."""
    kept = op.Greater(mask, op.array(np.zeros((), np.int32), name="nothing"))
    shown = op.array(np.zeros((), np.float32), name="shown")
    hidden = op.array(np.full((), filtered, np.float32), name="hidden")
    return op.Unsqueeze(op.Where(kept, shown, hidden), op.i64(1, 2))


def _attention(
    op: Ops, given: list[Term], widths: tuple[int, int, int], addend: Term | None, fused: Node
) -> Term:
    heads = _heads(fused)
    sizes = [width // heads for width in widths]
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    q, k, v = (
        op.Transpose(op.Reshape(one, op.i64(0, 0, heads, size)), perm=order)
        for one, size, order in zip(given, sizes, orders, strict=True)
    )
    scale = number_of(fused, "scale", 0.0) or 1 / math.sqrt(sizes[0])
    scores = op.Mul(op.MatMul(q, k, _name="products"), scale, _name="scores")
    odds = op.Softmax(scores if addend is None else op.Add(scores, addend), axis=-1)
    rows = op.Transpose(op.MatMul(odds, v, _name="mean"), perm=(0, 2, 1, 3))
    return op.Reshape(rows, op.i64(0, 0, widths[2]), _name="rows")


PLUGIN = RuleTransform(unfuse)
