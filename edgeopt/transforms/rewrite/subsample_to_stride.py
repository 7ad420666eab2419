"""Positions that are left out beside a pointwise convolution, as the convolution's stride.

    MaxPool_1x1(Conv1x1(x, W, b), stride s)  =  Conv1x1(x, W, b, stride s)
    Conv1x1(MaxPool_1x1(x, stride s), W, b)  =  Conv1x1(x, W, b, stride s)
    Conv1x1(x[:, :, ::s, ::s], W, b)         =  Conv1x1(x, W, b, stride s)

A pooling over one pixel takes every s-th, as the last level of a feature pyramid does. What is
not taken is then neither computed nor copied.

It must not fire with a larger kernel, padding or groups of the convolution, with a stride of its
own, where slices do not start at 0, end early or run along other axes, or where something else
reads what is between.
ONNX Runtime does nothing of it; measured 1.4.
"""

from edgeopt.transforms.rules.conditions import require_pointwise
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_FAR = 2**31 - 1
subsample = Rule("subsample_to_stride", opset=10, shared="something else reads what is between")


@subsample.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    return op.MaxPool(op.Conv(x, w, b, _as="conv"), _as="pool")


@subsample.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    return op.Conv(op.MaxPool(x, _as="pool"), w, b, _as="conv")


@subsample.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    starts: Const,
    ends: Const,
    axes: Const,
    steps: Const,
    starts2: Const,
    ends2: Const,
    axes2: Const,
    steps2: Const,
    b: Const | None = None,
) -> Term:
    rows = op.Slice(x, starts2, ends2, axes2, steps2)
    return op.Conv(op.Slice(rows, starts, ends, axes, steps), w, b, _as="conv")


@subsample.pattern
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    starts: Const,
    ends: Const,
    axes: Const,
    steps: Const,
    b: Const | None = None,
) -> Term:
    return op.Conv(op.Slice(x, starts, ends, axes, steps), w, b, _as="conv")


@subsample.sound
def _(conv: Node, w: Const, pool: Node | None = None) -> None:
    require_pointwise(conv, w)
    if pool is not None:
        require(all(size == 1 for size in pool.kernel_shape), "it pools several pixels")
        plain = not any(pool.pads) and not pool.attrs.get("ceil_mode", 0)
        require(plain and pool.attrs.get("auto_pad", "NOTSET") == "NOTSET", "the pooling pads")


@subsample.sound
def _(
    x: Tensor,
    starts: Const | None = None,
    ends: Const | None = None,
    axes: Const | None = None,
    steps: Const | None = None,
    starts2: Const | None = None,
    ends2: Const | None = None,
    axes2: Const | None = None,
    steps2: Const | None = None,
) -> None:
    if starts is not None and ends is not None and axes is not None and steps is not None:
        _require_every(x, starts, ends, axes, steps)
    if starts2 is not None and ends2 is not None and axes2 is not None and steps2 is not None:
        _require_every(x, starts2, ends2, axes2, steps2)
        assert axes is not None, "the pattern has both"
        apart = not {int(a) % x.rank for a in axes.array().reshape(-1)} & {
            int(a) % x.rank for a in axes2.array().reshape(-1)
        }
        require(apart, "both slices run along one axis")


def _require_every(x: Tensor, starts: Const, ends: Const, axes: Const, steps: Const) -> None:
    """Ask that a Slice takes every so many positions of spatial axes, from the first to the last.

    Raises:
        Refused: It leaves out others, or cuts batch or channels.
    """
    require(not starts.array().any(), "a slice does not start at 0")
    numbers = (each.array().reshape(-1) for each in (axes, ends, steps))
    for axis, end, step in zip(*numbers, strict=True):
        require(int(axis) % x.rank > 1, "it slices batch or channels")
        require(int(step) > 0, "a slice runs backwards")
        if int(end) < _FAR:
            size = x.size(int(axis))
            last = (size - 1) // int(step) * int(step)
            require(int(end) > last or -size + last < int(end) < 0, "a slice ends early")


@subsample.worth
def _(
    w: Const,
    pool: Node | None = None,
    axes: Const | None = None,
    steps: Const | None = None,
    axes2: Const | None = None,
    steps2: Const | None = None,
) -> None:
    strides = _strides(w.rank, pool, (axes, steps), (axes2, steps2))
    require(any(step > 1 for step in strides), "nothing is left out")


@subsample.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    conv: Node,
    b: Const | None = None,
    pool: Node | None = None,
    axes: Const | None = None,
    steps: Const | None = None,
    axes2: Const | None = None,
    steps2: Const | None = None,
) -> Term:
    strides = _strides(w.rank, pool, (axes, steps), (axes2, steps2))
    return op.like(conv)(x, w, b, auto_pad="NOTSET", strides=strides)


def _strides(
    rank: int, pool: Node | None, *slices: tuple[Const | None, Const | None]
) -> tuple[int, ...]:
    """One number a spatial axis."""
    if pool is not None:
        return tuple(pool.strides)
    found = [1] * (rank - 2)
    for axes, steps in slices:
        if axes is None or steps is None:
            continue
        for axis, step in zip(axes.array().reshape(-1), steps.array().reshape(-1), strict=True):
            found[int(axis) % rank - 2] *= int(step)
    return tuple(found)


PLUGIN = RuleTransform(subsample)
