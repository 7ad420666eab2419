"""A constant added behind a convolution, as its bias.

    Conv(x, W, b) + c  =  Conv(x, W, b + c)

c holds one number, or one a channel on the convolution's channel axis.
It must not fire when something else reads the convolution's output, when c varies over positions
or over the batch, when c would widen the result, or where weight or bias are no constants.
ONNX Runtime folds it by itself in float; quantization and every rule that looks for a convolution
directly before something else need it done.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, refuse, set_constant, site_of
from edgeopt.transforms.rewrite._convolution import constants_of


@dataclass(frozen=True, slots=True)
class _Sum:
    conv: ir.Node
    root: ir.Node
    bias: npt.NDArray[Any]


def _match(root: ir.Node) -> _Sum | Rejection:
    left, right = input_of(root, 0), input_of(root, 1)
    added = array_of(right)
    if added is None:
        left, added = right, array_of(left)
    if added is None or left is None:
        return refuse("neither operand is a constant", root)
    conv = left.producer()
    if conv is None or conv.op_type != "Conv" or conv.domain or conv.graph is not root.graph:
        return refuse("it does not follow a convolution", root)
    if sole_user(left) is not root:
        return refuse("something else reads the convolution", conv)
    constants = constants_of(conv)
    if isinstance(constants, Rejection):
        return constants
    weight, bias = constants
    row = _per_channel(added, weight)
    if row is None:
        return refuse("the constant is not one number a channel", root)
    before = np.zeros(weight.shape[0]) if bias is None else bias.astype(np.float64)
    return _Sum(conv, root, (before + row).astype(weight.dtype))


def _per_channel(
    added: npt.NDArray[Any], weight: npt.NDArray[Any]
) -> npt.NDArray[np.float64] | None:
    """[channels]; None where the constant is of another kind."""
    channels, rank = weight.shape[0], weight.ndim
    if added.ndim > rank:
        return None
    full = added.reshape((1,) * (rank - added.ndim) + added.shape)
    if full.shape[1] not in (1, channels) or full.size != full.shape[1]:
        return None
    return np.broadcast_to(full.reshape(-1).astype(np.float64), (channels,))


def _rewrite(editor: Editor, found: _Sum) -> None:
    set_constant(editor, found.conv, 2, f"{site_of(found.root)}/fold_add/bias", found.bias)
    editor.replace_value(found.root.outputs[0], found.conv.outputs[0])
    editor.remove_dead([found.root])


PLUGIN = LocalRule(name="fold_add", roots=frozenset({"Add"}), match=_match, rewrite=_rewrite)
