"""Positions that are left out beside a pointwise convolution, as the convolution's stride.

    MaxPool_1x1(Conv1x1(x, W, b), stride s)  =  Conv1x1(x, W, b, stride s)
    Conv1x1(MaxPool_1x1(x, stride s), W, b)  =  Conv1x1(x, W, b, stride s)
    Conv1x1(x[:, :, ::s, ::s], W, b)         =  Conv1x1(x, W, b, stride s)

A pooling over one pixel takes every s-th, as the last level of a feature pyramid does. What is
not taken is then neither computed nor copied. A stride that the convolution has is multiplied: of
slices one behind the other each takes its turn.

It must not fire with a larger kernel or padding of the convolution, where slices do not start at 0,
end early or run along other axes, or where something else reads what is between.
ONNX Runtime does nothing of it; measured 1.4.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_FAR = 2**31 - 1
subsample = Rule(
    "subsample_to_stride", opset=10, version=2, shared="something else reads what is between"
)


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
    b: Const | None = None,
) -> Term:
    return op.Conv(op.Slice(x, starts, ends, axes, steps), w, b, _as="conv")


@subsample.sound
def _(conv: Node, w: Const, pool: Node | None = None) -> None:
    require(all(size == 1 for size in w.shape[2:]), "the kernel is larger than 1")
    require(not any(conv.pads), "there is padding")
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
) -> None:
    if starts is None or ends is None or axes is None or steps is None:
        return
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
    w: Const, pool: Node | None = None, axes: Const | None = None, steps: Const | None = None
) -> None:
    left_out = _steps(w.rank, pool, axes, steps)
    require(any(step > 1 for step in left_out), "nothing is left out")


@subsample.replace_with
def _(
    op: Ops,
    x: Tensor,
    w: Const,
    conv: Node,
    b: Const | None,
    pool: Node | None = None,
    axes: Const | None = None,
    steps: Const | None = None,
) -> Term:
    pairs = zip(conv.strides, _steps(w.rank, pool, axes, steps), strict=True)
    strides = [own * step for own, step in pairs]
    return op.like(conv)(x, w, b, auto_pad="NOTSET", strides=strides)


def _steps(
    rank: int, pool: Node | None, axes: Const | None, steps: Const | None
) -> tuple[int, ...]:
    """One number a spatial axis."""
    if pool is not None:
        return tuple(pool.strides)
    assert axes is not None, "the pattern has it"
    assert steps is not None, "the pattern has it"
    places = (int(axis) % rank for axis in axes.array().reshape(-1))
    found = dict(zip(places, steps.array().reshape(-1), strict=True))
    return tuple(int(found.get(axis, 1)) for axis in range(2, rank))


PLUGIN = RuleTransform(subsample)
