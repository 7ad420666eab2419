"""Average pooling as a depthwise convolution of equal weights.

    AveragePool(x, k)  =  Conv(x, 1/k², group = channels)

ONNX Runtime's blocked layout takes a pool only where channels are a multiple of 16 and a depthwise
convolution where they are one of 4. Where it takes the convolution alone, that is 1.8 to 2.2 times
as fast between convolutions (six sizes of 24 to 136 channels, kernels 2 and 3, operator set 18,
one x86 thread) and 1.1 to 2.1 times elsewhere; of 3 to 18 channels seven of fourteen lost.

It must not fire on multiples of 16 channels or on other than multiples of 4, below 20 channels, on
other than planes in float32, where padded zeros are left out of the mean, with `auto_pad` or
`ceil_mode`, or where the number of channels is free. Where the sum of a window overflows and the
mean does not, the convolution is finite and the pooling was not.
"""

import math
from typing import Any

import numpy as np

from edgeopt.transforms.rules.conditions import integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

_BLOCK, _PART, _FEWEST = 16, 4, 20

spread = Rule("average_to_conv", opset=7)


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
    require(x.size(1) % _PART == 0, "the blocked layout takes no convolution of these channels")
    require(x.size(1) >= _FEWEST, "its channels are too few")


@spread.replace_with
def _(op: Ops, x: Tensor, pool: Node) -> Term:
    channels, kernel = x.size(1), [int(size) for size in pool.kernel_shape]
    mean = np.full((channels, 1, *kernel), 1 / math.prod(kernel), np.float32)
    held = ("kernel_shape", "strides", "pads", "dilations")
    window: dict[str, Any] = {name: pool.attrs[name] for name in held if name in pool.attrs}
    return op.Conv(x, op.array(mean, name="mean"), group=channels, **window, _name="conv")


PLUGIN = RuleTransform(spread)
