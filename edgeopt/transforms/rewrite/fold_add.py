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

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, set_constant, site_of
from edgeopt.transforms.rewrite._convolution import convolution_and_row


@dataclass(frozen=True, slots=True)
class _Sum:
    conv: ir.Node
    root: ir.Node
    bias: npt.NDArray[Any]


def _match(root: ir.Node) -> _Sum | Rejection:
    found = convolution_and_row(root)
    if isinstance(found, Rejection):
        return found
    conv, weight, bias, row = found
    before = np.zeros(weight.shape[0]) if bias is None else bias.astype(np.float64)
    return _Sum(conv, root, (before + row).astype(weight.dtype))


def _rewrite(editor: Editor, found: _Sum) -> None:
    set_constant(editor, found.conv, 2, f"{site_of(found.root)}/fold_add/bias", found.bias)
    editor.replace_value(found.root.outputs[0], found.conv.outputs[0])
    editor.remove_dead([found.root])


PLUGIN = LocalRule(name="fold_add", roots=frozenset({"Add"}), match=_match, rewrite=_rewrite)
