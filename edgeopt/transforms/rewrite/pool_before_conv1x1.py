"""Global average pooling before a pointwise convolution instead of after it.

    GlobalAveragePool(Conv1x1(x, W, b))  =  Conv1x1(GlobalAveragePool(x), W, b)

Both are linear and act on different axes, and the mean of a constant bias is the bias. The
convolution then runs at one position instead of height × width: 2.0-2.4 times faster for
320 -> 1280 channels at 7x7. ReduceMean over spatial axes, all or some, counts as pooling; where it
drops them (`x.mean([2, 3])`), a Flatten or Reshape drops them behind the convolution.

It must not fire on a mean over batch or channels, with a larger kernel, a stride, padding (a padded
border is no mean of x), groups, when something else reads the convolution, with anything between
the two (an activation is not linear), where axes are dropped and two are left, or where the axes
are known to be of size 1 already.
"""

from edgeopt.transforms.rules.conditions import integers_of, require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

pool_first = Rule("pool_before_conv1x1", opset=5, shared="something else reads the convolution")


@pool_first.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None, axes: Const | None = None) -> Term:
    conv = op.Conv(x, w, b, _as="conv", _value="plane", _missing="it does not pool a convolution")
    return op.one_of("GlobalAveragePool", "ReduceMean")(conv, axes, _as="pool")


@pool_first.sound
def _(conv: Node, w: Const, pool: Node, axes: Const | None) -> None:
    pooled, spatial = _pooled(w, pool, axes), set(range(2, w.rank))
    require(bool(pooled) and pooled <= spatial, "it does not average over spatial axes alone")
    kept = pool.op_type == "GlobalAveragePool" or bool(pool.keepdims)
    require(kept or len(spatial - pooled) < 2, "it drops some axes and leaves several")
    require_pointwise(conv, w)


def _pooled(w: Const, pool: Node, axes: Const | None) -> set[int]:
    if pool.op_type == "GlobalAveragePool":
        return set(range(2, w.rank))
    return {axis % w.rank for axis in integers_of(pool, "axes", axes)}


@pool_first.worth
def _(plane: Tensor, w: Const, pool: Node, axes: Const | None) -> None:
    sizes = plane.known.shape
    one = sizes is not None and all(
        isinstance(sizes[axis], int) and sizes[axis] == 1 for axis in _pooled(w, pool, axes)
    )
    require(not one, "the map is 1x1 already: nothing to gain")


@pool_first.replace_with
def _(
    op: Ops, x: Tensor, w: Const, b: Const | None, axes: Const | None, conv: Node, pool: Node
) -> Term:
    if pool.op_type == "GlobalAveragePool" or pool.keepdims:
        pooled = op.like(pool)(x, axes, _name="pooled")
        return op.like(conv)(pooled, w, b, _name="conv")
    pooled = op.like(pool)(x, axes, _name="pooled", keepdims=1)
    made = op.like(conv)(pooled, w, b, _name="conv")
    if len(_pooled(w, pool, axes)) == w.rank - 2:
        return op.Flatten(made, axis=1)
    return op.Reshape(made, op.i64(0, 0, -1))


PLUGIN = RuleTransform(pool_first)
