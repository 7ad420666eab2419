"""Constant weights as signed integer codes: weight = scale * (code - zero), zero in the middle.

Tensors are shared by all clones of a graph, so the same weight is coded once a search.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.profile import QuantizationTypes
from edgeopt.graph.editor import array_of
from edgeopt.transforms.quantize._kept import remembered

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How weights are coded.

    Args:
        dtype: `int8` or `uint8` (the same codes, shifted by 128).
        per_channel: One scale a channel, else one a tensor.
        reduce_range: Seven bits, where sums of two products are kept in 16 bits.
    """

    dtype: str
    per_channel: bool
    reduce_range: bool

    @staticmethod
    def action(name: str, site: str, types: QuantizationTypes) -> Action:
        """An action of a transform that codes weights as a device computes fast."""
        return Action.of(
            name,
            site,
            weight=types.weight,
            per_channel=types.per_channel,
            reduce_range=types.reduce_range,
        )

    @staticmethod
    def asked(action: Action) -> "Kind":
        """What an action's parameters say."""
        return Kind(
            dtype=str(action.get("weight")),
            per_channel=bool(action.get("per_channel")),
            reduce_range=bool(action.get("reduce_range")),
        )

    @property
    def tag(self) -> str:
        """Distinguishes constants made of one weight in different kinds."""
        bits = 7 if self.reduce_range else 8
        return f"{self.dtype}x{bits}{'' if self.per_channel else '_tensor'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """Codes of a weight.

    Args:
        codes: Of the weight's shape.
        scale: Float32, one a channel, or a scalar.
        zero: Of the codes' type, of the scale's shape.
    """

    codes: Array
    scale: Array
    zero: Array


def float_weight(value: ir.Value | None) -> Array | None:
    """A float32 constant; None for anything else."""
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.dtype is not ir.DataType.FLOAT:
        return None
    return array_of(value)


def coded_weight(
    value: ir.Value, kind: Kind, channels: tuple[int, ...], least: Array | None = None
) -> Coded | None:
    """The codes of a float32 constant; None where it holds numbers that are not finite.

    Args:
        value: The constant.
        kind: Type and range of the codes.
        channels: Axes that the scale keeps when it is one a channel, in order.
        least: The smallest scale of each channel that something else allows.
    """
    tensor = ir.convenience.get_const_tensor(value)
    key = (kind, channels, None if least is None else least.tobytes())
    return remembered(tensor, key, lambda: _coded(value, kind, channels, least))


def _coded(
    value: ir.Value, kind: Kind, channels: tuple[int, ...], least: Array | None
) -> Coded | None:
    weight = array_of(value)
    assert weight is not None, "the caller found a constant"
    if not np.isfinite(weight).all():
        return None
    limit = 63 if kind.reduce_range else 127
    others = tuple(axis for axis in range(weight.ndim) if axis not in channels)
    over = others if kind.per_channel else tuple(range(weight.ndim))
    spread = np.abs(weight).max(axis=over, keepdims=True, initial=0.0) / np.float32(limit)
    if least is not None:
        floor = least.reshape(spread.shape) if kind.per_channel else least.max()
        spread = np.maximum(spread, floor.astype(np.float32))
    spread = np.where(spread < np.finfo(np.float32).tiny, np.float32(1.0), spread)
    codes = np.clip(np.rint(weight / spread), -limit, limit)
    middle = 128 if kind.dtype == "uint8" else 0
    scale = np.asarray(spread.squeeze(axis=over), np.float32)
    zero = np.full(scale.shape, middle, kind.dtype)
    return Coded(codes=(codes + middle).astype(kind.dtype), scale=scale, zero=zero)
