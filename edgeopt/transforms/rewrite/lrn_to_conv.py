"""Local response normalization across channels, spelled in operators that have fast kernels.

    LRN(x)  =  x / s^beta        s = bias + alpha / size * (sum of x^2 over `size` channels)

The sum over neighbouring channels is a 1x1 convolution of x^2 with a band of ones; s^0.75 is
sqrt(s) * sqrt(sqrt(s)), so that no power is computed. ONNX Runtime's LRN computes one for every
element on one thread: it takes more than half of the time of AlexNet-like nets.

It must not fire with another beta than 0.5, 0.75 or 1, with an even size (it has no middle),
where the number of channels is not known, on other than planes in float32, or where bias and
alpha make a root of a negative number or a division by zero possible.
"""

import numpy as np

from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import Array, require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_MOST_CHANNELS = 1024
"""The band is a full matrix: beyond it the convolution costs more than the normalization."""
_ROOTS = {0.5: 1, 0.75: 2, 1.0: 0}
"""Square roots, one of the other, whose product is the power beta; none: the sum itself."""

spelled = Rule("lrn_to_conv", opset=7)


@spelled.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.LRN(x, _as="lrn")


@spelled.sound
def _(x: Tensor, lrn: Node) -> None:
    planes = x.known.shape is not None and x.rank == 4
    require(planes, "its input does not hold planes")
    require(x.dtype == "float32", "it is not in float32")
    require(isinstance(x.shape[1], int), "the number of channels is free, or too large")
    require(lrn.size % 2 == 1, "it looks at an even number of channels")
    require(lrn.beta in _ROOTS, "beta is not 0.5, 0.75 or 1")
    require(lrn.bias > 0.0 and lrn.alpha >= 0.0, "its sum may be zero or negative")


@spelled.worth
def _(x: Tensor) -> None:
    require(x.size(1) <= _MOST_CHANNELS, "the number of channels is free, or too large")


@spelled.replace_with
def _(op: Ops, x: Tensor, lrn: Node) -> Term:
    channels = x.size(1)
    band = op.array(_band(lrn, channels), name="band")
    offset = op.array(np.full(channels, lrn.bias, np.float32), name="bias")
    power: Term = op.Conv(op.Mul(x, x, _name="square"), band, offset, _name="sum")
    roots: list[Term] = []
    for index in range(_ROOTS[lrn.beta]):
        power = op.Sqrt(power, _name=f"root_{index}")
        roots.append(power)
    if len(roots) > 1:
        power = op.Mul(*roots, _name="power")
    return op.Div(x, power)


def _band(lrn: Node, channels: int) -> Array:
    """[channels, channels, 1, 1]: alpha / size where the second is near the first."""
    apart = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    weight = (abs(apart) <= lrn.size // 2) * (lrn.alpha / lrn.size)
    return weight.astype(np.float32).reshape(channels, channels, 1, 1)


PLUGIN = RuleTransform(spelled)
