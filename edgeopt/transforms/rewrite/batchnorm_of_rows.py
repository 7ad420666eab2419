"""A BatchNormalization over the rows of a product, in the product's columns.

    BN(x W + c)                        =  x (W f) + (c f + shift)
    BN(View(x W + c))                  =  View(x (W f) + (c f + shift))
    Reshape(BN(View(x W)), its shape)  =  x (W f) + shift

with f = scale / sqrt(var + epsilon) and shift = bias - mean f. View is a Flatten or Reshape that
puts all rows on one axis: so torch's BatchNorm1d stands behind a Linear on tokens, as in every
layer of LeViT (`bn(x.flatten(0, 1)).reshape_as(x)`). What is then laid out as it was, whether its
sizes are known or asked for by a Shape, needs no view at all.

It must not fire in training mode, where something else reads the product, where the view changes
the columns, where they are laid out otherwise behind the normalization, with a bias that differs
from row to row, or where weights or statistics are no constants. Behind convolutions and Gemm it is
`fold_batchnorm`.
"""

from edgeopt.transforms.rules.conditions import require_factors
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

rows = Rule("batchnorm_of_rows", opset=8, shared="something else reads the product")


def _product(op: Ops, x: Tensor, w: Const, b: Const) -> Term:
    missing = "it follows no product"
    product = op.MatMul(x, w, _as="layer", _value="product", _missing=missing)
    return op.either(op.Add(product, b, _missing=missing), product)


def _flat(op: Ops, product: Term, s: Tensor) -> Term:
    flatten = op.Flatten(product, _as="view", _value="flat")
    return op.either(flatten, op.Reshape(product, s, _as="view", _value="flat"))


@rows.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    b: Const,
    scale: Const,
    offset: Const,
    mean: Const,
    variance: Const,
) -> Term:
    return op.BatchNormalization(_product(op, x, w, b), scale, offset, mean, variance, _as="norm")


@rows.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    b: Const,
    s: Tensor,
    scale: Const,
    offset: Const,
    mean: Const,
    variance: Const,
) -> Term:
    flat = _flat(op, _product(op, x, w, b), s)
    return op.BatchNormalization(flat, scale, offset, mean, variance, _as="norm")


@rows.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    b: Const,
    s: Tensor,
    t: Tensor,
    scale: Const,
    offset: Const,
    mean: Const,
    variance: Const,
) -> Term:
    product = _product(op, x, w, b)
    norm = op.BatchNormalization(_flat(op, product, s), scale, offset, mean, variance, _as="norm")
    return op.Reshape(norm, op.either(op.Shape(product, _as="asked"), t), _value="back")


@rows.sound
def _(w: Const, product: Tensor, scale: Const, variance: Const, norm: Node) -> None:
    require_factors(norm, scale, variance)
    require(w.rank == 2 and product.rank > 1, "it multiplies with a vector")
    require(scale.shape == w.shape[1:], "product and normalization have different columns")


@rows.sound
def _(
    product: Tensor,
    w: Const,
    b: Const | None = None,
    flat: Tensor | None = None,
    back: Tensor | None = None,
    asked: Node | None = None,
) -> None:
    if b is not None:
        same = b.rank < 2 and (b.rank == 0 or b.shape[0] in (1, w.shape[1]))
        require(same, "its bias differs from row to row")
    made = product if flat is None else flat
    require(made.rank == 2 and made.size(1) == w.shape[1], "the columns are no channels")
    if asked is not None:
        require(not asked.attrs, "it asks for some sizes only")
    elif back is not None:
        require(back.shape == product.shape, "it is laid out otherwise behind")


@rows.worth
def _(readers: frozenset[str], flat: Tensor | None = None, back: Tensor | None = None) -> None:
    # What is laid out as before is the site of that Reshape, and loses both views.
    alone = flat is None or back is not None or "Reshape" not in readers
    require(alone, "a Reshape reads what is normalised")


@rows.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    scale: Const,
    offset: Const,
    mean: Const,
    variance: Const,
    layer: Node,
    norm: Node,
    b: Const | None = None,
    s: Tensor | None = None,
    view: Node | None = None,
    back: Tensor | None = None,
) -> Term:
    factor = scale / op.Sqrt(variance + norm.epsilon)
    shift = op.Sub(offset, mean * factor, _name="shift")
    if b is not None:
        shift = op.Add(b * factor, shift, _name="shift")
    weight = op.Mul(w, factor, _name="weight")
    made = op.Add(op.like(layer)(x, weight, _name="product"), shift, _name="sum")
    return made if view is None or back is not None else op.like(view)(made, s, _name="rows")


PLUGIN = RuleTransform(rows)
