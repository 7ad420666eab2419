"""A constant factor behind a convolution, in its weights.

    Conv(x, W, b) * c  =  Conv(x, W * c, b * c)

c holds one number, or one a channel on the convolution's channel axis: Caffe's Scale layer, and
detectors' learned scales.
It must not fire when something else reads the convolution's output, when c varies over positions
or over the batch, when c would widen the result, or where weight or bias are no constants.
ONNX Runtime folds it by itself in float; between integers it is a layer in float of its own.
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
class _Product:
    conv: ir.Node
    root: ir.Node
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None


def _match(root: ir.Node) -> _Product | Rejection:
    found = convolution_and_row(root)
    if isinstance(found, Rejection):
        return found
    conv, weight, bias, row = found
    wide = weight.astype(np.float64) * row.reshape(-1, *(1,) * (weight.ndim - 1))
    moved = None if bias is None else (bias.astype(np.float64) * row).astype(weight.dtype)
    return _Product(conv, root, wide.astype(weight.dtype), moved)


def _rewrite(editor: Editor, found: _Product) -> None:
    site = f"{site_of(found.root)}/fold_mul"
    set_constant(editor, found.conv, 1, f"{site}/weight", found.weight)
    if found.bias is not None:
        set_constant(editor, found.conv, 2, f"{site}/bias", found.bias)
    editor.replace_value(found.root.outputs[0], found.conv.outputs[0])
    editor.remove_dead([found.root])


PLUGIN = LocalRule(name="fold_mul", roots=frozenset({"Mul"}), match=_match, rewrite=_rewrite)
