"""BatchNormalization into the weights of the layer before it.

    BN(Conv(x, W, b))  =  Conv(x, W·f, (b - mean)·f + shift)     f = scale / sqrt(var + epsilon)

Also behind ConvTranspose (output channels are on axis 1 of the weight, group by group) and Gemm
(they are the columns of B); grouped convolutions and a missing bias are fine.

It must not fire in training mode (the statistics are those of the batch), when something else
reads the layer's output (it would see normalised values), when weights or statistics are no
constants, or behind a Gemm whose C differs from row to row.
ONNX Runtime folds Conv and ConvTranspose by itself, Gemm not; quantization needs it done before.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import (
    LocalRule,
    floating,
    input_of,
    integer,
    refuse,
    set_constant,
    site_of,
)
from edgeopt.transforms.rewrite._convolution import constants_of

_LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm"})
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Fold:
    layer: ir.Node
    norm: ir.Node
    weight: npt.NDArray[Any]
    factor: Floats
    bias: Floats


def _match(norm: ir.Node) -> _Fold | Rejection:
    if normalises_batch(norm):
        return refuse("it normalises with the statistics of the batch", norm)
    value = input_of(norm, 0)
    layer = None if value is None else value.producer()
    if value is None or layer is None or layer.op_type not in _LAYERS or layer.domain:
        return refuse("it does not follow a Conv, ConvTranspose or Gemm", norm)
    if sole_user(value) is not norm or layer.graph is not norm.graph:
        return refuse("something else reads the layer's output", layer)
    constants = constants_of(layer)
    if isinstance(constants, Rejection):
        return constants
    numbers = affine(norm)
    if isinstance(numbers, Rejection):
        return numbers
    weight, bias = constants
    factor, shift = numbers
    before = _bias(layer, bias, len(factor))
    if before is None:
        return refuse("its bias differs from row to row", layer)
    if _channels(layer, weight) != len(factor):
        return refuse("layer and normalization have different numbers of channels", layer, norm)
    return _Fold(layer, norm, weight, factor, before * factor + shift)


def normalises_batch(norm: ir.Node) -> bool:
    """Whether it is in training mode: its statistics are those of the batch."""
    return bool(integer(norm, "training_mode", 0)) or any(map(_used, norm.outputs[1:]))


def _used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def affine(norm: ir.Node) -> tuple[Floats, Floats] | Rejection:
    """The normalization as `y = x * factor + shift`."""
    arrays = [array_of(input_of(norm, index)) for index in range(1, 5)]
    wide = [array.astype(np.float64) for array in arrays if array is not None]
    if len(wide) != 4:
        return refuse("its scale, bias, mean or variance is no constant", norm)
    scale, bias, mean, variance = wide
    factor = scale / np.sqrt(variance + floating(norm, "epsilon", 1e-5))
    if not np.isfinite(factor).all():
        return refuse("a variance is negative or not finite", norm)
    return factor, bias - mean * factor


def _channels(layer: ir.Node, weight: npt.NDArray[Any]) -> int:
    """Number of output channels (columns of a Gemm)."""
    if layer.op_type == "Gemm":
        return weight.shape[0 if integer(layer, "transB", 0) else 1]
    if layer.op_type == "Conv":
        return weight.shape[0]
    return weight.shape[1] * integer(layer, "group", 1)


def _scaled(found: _Fold) -> npt.NDArray[Any]:
    """The weight with each output channel multiplied by its factor."""
    layer, weight, factor = found.layer, found.weight, found.factor
    if layer.op_type == "Gemm":
        axis = 0 if integer(layer, "transB", 0) else 1
        scaled = weight * np.expand_dims(factor, 1 - axis)
    elif layer.op_type == "Conv":
        scaled = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
    else:
        group, ones = integer(layer, "group", 1), (1,) * (weight.ndim - 2)
        grouped = weight.reshape(group, -1, *weight.shape[1:])
        scaled = (grouped * factor.reshape(group, 1, -1, *ones)).reshape(weight.shape)
    return scaled.astype(weight.dtype)


def _bias(layer: ir.Node, bias: npt.NDArray[Any] | None, channels: int) -> Floats | None:
    """One bias a channel, `beta` of a Gemm included; None where rows differ."""
    if bias is None:
        return np.zeros(channels)
    wide = bias.astype(np.float64)
    if layer.op_type == "Gemm":
        wide = wide * floating(layer, "beta", 1.0)
    if wide.ndim == 2 and wide.shape[0] == 1:
        wide = wide[0]
    if wide.ndim > 1 or wide.size not in (1, channels):
        return None
    return np.broadcast_to(wide, (channels,))


def _rewrite(editor: Editor, found: _Fold) -> None:
    layer, site = found.layer, site_of(found.norm)
    bias = found.bias.astype(found.weight.dtype)
    for index, role, array in ((1, "weight", _scaled(found)), (2, "bias", bias)):
        set_constant(editor, layer, index, f"{site}/fold_batchnorm/{role}", array)
    if layer.op_type == "Gemm":
        editor.set_attribute(layer, "beta", 1.0)
    editor.replace_value(found.norm.outputs[0], layer.outputs[0])
    editor.remove_dead([found.norm])


PLUGIN = LocalRule(
    name="fold_batchnorm",
    roots=frozenset({"BatchNormalization"}),
    match=_match,
    rewrite=_rewrite,
)
