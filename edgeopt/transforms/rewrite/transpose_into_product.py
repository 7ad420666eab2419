"""A layer behind flattened planes, in the order that the planes have.

    Gemm(Flatten(Transpose(x)), W)  =  Gemm(Flatten(x), W[rows in another order])

Converters from channels-last frameworks turn planes back before the classifier, since its weights
were trained in that order. The same for MatMul, and for a Reshape that flattens.

It must not fire where the batch moves too, where sizes are free, where what is flattened keeps
more axes than two, where weights are no constants or do not belong to those rows, or where
something else reads a step.
ONNX Runtime does nothing of it.
"""

import math

from edgeopt.transforms.rules.conditions import integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

straight = Rule("transpose_into_product", opset=9, shared="something else reads a step of it")


@straight.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    turned = op.Transpose(x, _as="turn", _missing="no Transpose before it")
    flat = op.Flatten(turned, _as="flatten", _value="flat", _missing="it reads nothing flattened")
    return op.Gemm(flat, w, b, _as="product")


@straight.pattern
def _(op: Ops, x: Tensor, shape: Const, w: Const, b: Const | None = None) -> Term:
    turned = op.Transpose(x, _as="turn", _missing="no Transpose before it")
    flat = op.Reshape(turned, shape, _value="flat", _missing="it reads nothing flattened")
    return op.Gemm(flat, w, b, _as="product")


@straight.pattern
def _(op: Ops, x: Tensor, shape: Const, w: Const) -> Term:
    turned = op.Transpose(x, _as="turn", _missing="no Transpose before it")
    flat = op.Reshape(turned, shape, _value="flat", _missing="it reads nothing flattened")
    return op.MatMul(flat, w, _as="product")


@straight.sound
def _(x: Tensor, w: Const, turn: Node, flat: Tensor, product: Node) -> None:
    order = integers_of(turn, "perm", None)
    require(len(order) == x.rank > 2 and order[0] == 0, "the batch moves too")
    rows = math.prod(x.size(axis) for axis in range(1, x.rank))
    require(flat.rank == 2 and flat.size(1) == rows, "what is flattened is not one row an image")
    require(not product.attrs.get("transA", 0), "its left side is turned")
    side = 1 if product.attrs.get("transB", 0) else 0
    require(w.rank == 2 and w.shape[side] == rows, "the weights belong to other rows")


@straight.replace_with
def _(op: Ops, x: Tensor, w: Const, turn: Node, product: Node, b: Const | None = None) -> Term:
    order = integers_of(turn, "perm", None)
    sizes = [x.size(axis) for axis in order[1:]]
    back = [order.index(axis) - 1 for axis in range(1, x.rank)]
    if product.attrs.get("transB", 0):
        split = op.Reshape(w, op.i64(w.shape[0], *sizes))
        turned = op.Transpose(split, perm=[0, *(axis + 1 for axis in back)])
    else:
        split = op.Reshape(w, op.i64(*sizes, w.shape[1]))
        turned = op.Transpose(split, perm=[*back, len(back)])
    weight = op.Reshape(turned, op.i64(*w.shape))
    flat = op.Flatten(x, axis=1, _name="flat")
    held = (flat, weight) if b is None else (flat, weight, b)
    return op.like(product)(*held, _name="product")


PLUGIN = RuleTransform(straight)
