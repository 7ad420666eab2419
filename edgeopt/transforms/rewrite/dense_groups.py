"""A pointwise convolution in groups as one without, its weights beside zeros.

    Conv(x, W, group=g)  =  Conv(x, block_diagonal(W))

It multiplies g times as often and loses in float, so that it is a decision of its own; integer
kernels take groups one after the other and gather the pixels of each.

It must not fire on kernels other than 1, on depthwise convolutions, on more than 8 groups, or
where weights are no constants.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse, set_constant, site_of
from edgeopt.transforms.rewrite._convolution import constants_of

_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class _Dense:
    conv: ir.Node
    weight: npt.NDArray[Any]


def _match(conv: ir.Node) -> _Dense | Rejection:
    constants = constants_of(conv)
    if isinstance(constants, Rejection):
        return constants
    weight, group = constants[0], integer(conv, "group", 1)
    if any(size != 1 for size in weight.shape[2:]):
        return refuse("the kernel is larger than 1", conv)
    if not 1 < group <= _MOST_GROUPS:
        return refuse(f"it has no groups, or more than {_MOST_GROUPS}", conv)
    if weight.shape[1] == 1:
        return refuse("it is depthwise", conv)
    made, given = weight.shape[0], weight.shape[1]
    dense = np.zeros((made, given * group, *weight.shape[2:]), weight.dtype)
    for index in range(group):
        rows = slice(index * made // group, (index + 1) * made // group)
        dense[rows, index * given : (index + 1) * given] = weight[rows]
    return _Dense(conv, dense)


def _rewrite(editor: Editor, found: _Dense) -> None:
    name = f"{site_of(found.conv)}/dense_groups/weight"
    set_constant(editor, found.conv, 1, name, found.weight)
    editor.set_attribute(found.conv, "group", 1)


PLUGIN = LocalRule(name="dense_groups", roots=frozenset({"Conv"}), match=_match, rewrite=_rewrite)
