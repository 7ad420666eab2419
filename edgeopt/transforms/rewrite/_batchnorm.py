"""What imperative rules ask about a BatchNormalization."""

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import floating, input_of, integer, refuse

Floats = npt.NDArray[np.float64]


def normalises_batch(norm: ir.Node) -> bool:
    """Whether it is in training mode: its statistics are those of the batch."""
    return bool(integer(norm, "training_mode", 0)) or any(map(_used, norm.outputs[1:]))


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


def _used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
