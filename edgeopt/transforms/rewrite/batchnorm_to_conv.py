"""A BatchNormalization that no layer before it can take in, as a depthwise 1x1 convolution.

    BN(x)  =  Conv(x, f, shift, group=channels)     f = scale / sqrt(var + epsilon)

So it is in nets that normalise before they convolve (DenseNet: behind every Concat). Factors,
biases and activations behind it then fold into it, and it has an integer kernel.

It must not fire behind a layer that folds it (see `fold_batchnorm`), in training mode, on other
than planes (only for those have runtimes a fast depthwise kernel), or where a statistic is no
constant. ONNX Runtime does the same by itself in float.
It is imperative, since it asks whether another rule fits at the same node.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, refuse, site_of
from edgeopt.transforms.rewrite._batchnorm import affine, normalises_batch
from edgeopt.transforms.rewrite.fold_batchnorm import PLUGIN as FOLD

_PLANES = 4


@dataclass(frozen=True, slots=True)
class _Norm:
    norm: ir.Node
    source: ir.Value
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any]


def _match(norm: ir.Node) -> _Norm | Rejection:
    source = input_of(norm, 0)
    if normalises_batch(norm):
        return refuse("it normalises with the statistics of the batch", norm)
    if source is None or source.shape is None or len(source.shape) != _PLANES:
        return refuse("its input does not hold planes", norm)
    if source.dtype is None or source.dtype.name != "FLOAT":
        return refuse("it is not in float32", norm)
    if FOLD.fits(norm):
        return refuse("the layer before it takes it in", norm)
    found = affine(norm)
    if isinstance(found, Rejection):
        return found
    factor, shift = (each.astype(np.float32) for each in found)
    return _Norm(norm, source, factor.reshape(-1, 1, 1, 1), shift)


def _rewrite(editor: Editor, found: _Norm) -> None:
    old, name = found.norm.outputs[0], f"{site_of(found.norm)}/batchnorm_to_conv"
    weight = editor.initializer(f"{name}/weight", found.weight)
    bias = editor.initializer(f"{name}/bias", found.bias)
    attributes = {"group": len(found.bias), "kernel_shape": [1, 1]}
    inputs = [found.source, weight, bias]
    conv = new_node("Conv", inputs, output=name, attributes=attributes, like=old)
    editor.insert([conv], before=found.norm)
    editor.replace_value(old, conv.outputs[0])
    editor.remove_dead([found.norm])


PLUGIN = LocalRule(
    name="batchnorm_to_conv",
    roots=frozenset({"BatchNormalization"}),
    match=_match,
    rewrite=_rewrite,
)
