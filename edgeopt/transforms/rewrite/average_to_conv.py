"""Average pooling as a depthwise convolution of equal weights.

    AveragePool(x, k)  =  Conv(x, 1/k², group = channels)

From operator set 19 on (with dilations) ONNX Runtime 1.32 computes an AveragePool that is not in
its blocked layout one element at a time; the blocked layout takes it only where channels are a
multiple of 16. So a graph that was raised to a newer set lost what it had: a DenseNet whose
transitions pool 72 channels took 292 µs for one instead of 90. The convolution takes what the old
pooling took or less, and stays in the blocked layout between convolutions: 1.2 to 3.2 times the
speed over seven sizes (kernels 2 to 7, 3 to 100 channels; one x86 thread), 1.0 where channels are
a multiple of 16.

It must not fire below operator set 19, on multiples of 16 channels, on other than planes in
float32, where padded zeros are left out of the mean, with `auto_pad` or `ceil_mode`, or where the
number of channels is free. Where the sum of a window overflows and the mean does not, the
convolution is finite and the pooling was not.
"""

import math
from typing import Any

import numpy as np

from edgeopt.transforms.rules.conditions import integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_BLOCK = 16

spread = Rule("average_to_conv", opset=19)


@spread.pattern
def _(op: Ops, x: Tensor) -> Term:
    return op.AveragePool(x, _as="pool")


@spread.sound
def _(x: Tensor, pool: Node) -> None:
    planes = x.known.shape is not None and x.rank == 4
    require(planes, "its input does not hold planes")
    require(x.dtype == "float32", "it is not in float32")
    require(isinstance(x.shape[1], int), "the number of channels is free")
    require(pool.attrs.get("auto_pad", "NOTSET") == "NOTSET", "its padding is automatic")
    require(not pool.attrs.get("ceil_mode", 0), "its windows may reach beyond the padding")
    counted = bool(pool.attrs.get("count_include_pad", 0))
    require(counted or not any(integers_of(pool, "pads", None)), "padded zeros do not count")


@spread.worth
def _(x: Tensor) -> None:
    require(x.size(1) % _BLOCK != 0, "the blocked layout pools these channels as they are")


@spread.replace_with
def _(op: Ops, x: Tensor, pool: Node) -> Term:
    channels, kernel = x.size(1), [int(size) for size in pool.kernel_shape]
    mean = np.full((channels, 1, *kernel), 1 / math.prod(kernel), np.float32)
    held = ("kernel_shape", "strides", "pads", "dilations")
    window: dict[str, Any] = {name: pool.attrs[name] for name in held if name in pool.attrs}
    return op.Conv(x, op.array(mean, name="mean"), group=channels, **window, _name="conv")


PLUGIN = RuleTransform(spread)
