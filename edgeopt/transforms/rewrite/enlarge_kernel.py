"""A kernel with a ring of zeros around it.

    Conv(x, W, pads p)  =  Conv(x, zeros around W, pads p + dilation)

A negative control, for recipes only: it lets a 1x1 convolution merge with a 3x3 one of the same
value (`siblings_to_split`, `join_convolutions`), the classical way to fill a graphics processor;
the study measured 0.64-0.78 of the speed on a processor.
It must not fire with `auto_pad` (padding would follow the kernel), on kernels over 5, or where
weights are no constants. An infinite input meets zeros that were not there.
ONNX Runtime does nothing of it.
"""

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

enlarge = Rule("enlarge_kernel", opset=13)
_LARGEST = 5


@enlarge.pattern
def _(op: Ops, x: Tensor, w: Const, b: Const | None = None) -> Term:
    return op.Conv(x, w, b, _as="conv")


@enlarge.sound
def _(conv: Node, w: Const) -> None:
    require(conv.auto_pad in ("NOTSET", ""), "its padding is automatic")
    require(w.rank > 2, "the weight has no spatial axis")
    require(max(w.shape[2:]) <= _LARGEST, f"the kernel is larger than {_LARGEST}")


@enlarge.replace_with
def _(op: Ops, x: Tensor, w: Const, conv: Node, b: Const | None) -> Term:
    ring = (0, 0, *(1,) * (w.rank - 2))
    steps: tuple[int, ...] = tuple(conv.dilations) * 2
    return op.like(conv)(
        x,
        op.Pad(w, op.i64(*ring, *ring)),
        b,
        kernel_shape=[size + 2 for size in w.shape[2:]],
        pads=[pad + step for pad, step in zip(conv.pads, steps, strict=True)],
    )


PLUGIN = RuleTransform(enlarge, control=True)
