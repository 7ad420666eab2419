"""A convolution whose weights are zero but for blocks, in groups.

    Conv(x, block_diagonal(W1, .., Wg))  =  Conv(x, [W1; ..; Wg], group = g)

So zeros that pruning left (or that an exporter wrote) save work. The number of groups is the
largest that the zeros allow, also inside the groups that there are.

It must not fire where no two blocks are free of each other, where everything is zero, or where
weights are no constants. An infinite input times a zero beside the blocks was NaN, and is left out.
Imperative, since the zeros are values. ONNX Runtime does nothing of it.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, integer, refuse, set_constant, site_of
from edgeopt.transforms.rewrite._convolution import constants_of


@dataclass(frozen=True, slots=True)
class _Blocks:
    conv: ir.Node
    weight: npt.NDArray[Any]
    group: int


def _match(conv: ir.Node) -> _Blocks | Rejection:
    constants = constants_of(conv)
    if isinstance(constants, Rejection):
        return constants
    weight, group = constants[0], integer(conv, "group", 1)
    rows, given = weight.shape[0] // group, weight.shape[1]
    used = (weight.reshape(group, rows, given, -1) != 0).any(axis=(0, 3))
    if not used.any():
        return refuse("all weights are zero", conv)
    most = gcd(rows, given)
    for parts in (n for n in range(most, 1, -1) if most % n == 0):
        blocks = used.reshape(parts, rows // parts, parts, given // parts).any(axis=(1, 3))
        if not (blocks & ~np.eye(parts, dtype=bool)).any():
            return _Blocks(conv, _narrowed(weight, group, parts), group * parts)
    return refuse("no block of the weights is free of the others", conv)


def _narrowed(weight: npt.NDArray[Any], group: int, parts: int) -> npt.NDArray[Any]:
    made, given = weight.shape[:2]
    per = given // parts
    rows = made // group
    blocks = [row % rows // (rows // parts) for row in range(made)]
    return np.stack([weight[i, b * per : (b + 1) * per] for i, b in enumerate(blocks)])


def _rewrite(editor: Editor, found: _Blocks) -> None:
    name = f"{site_of(found.conv)}/blocks_to_groups/weight"
    set_constant(editor, found.conv, 1, name, found.weight)
    editor.set_attribute(found.conv, "group", found.group)


PLUGIN = LocalRule(
    name="blocks_to_groups", roots=frozenset({"Conv"}), match=_match, rewrite=_rewrite
)
