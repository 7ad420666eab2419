"""Move scale from one layer into the next, channel by channel, where that changes nothing in float.

Between what makes a value and the integer layers that alone read it, every channel may be divided
by a factor s and multiplied again: f(x / s) = f(x) / s for Relu and its like. The channels then
fill the eight bits of their common range more evenly, and the steps of the weight behind them do
the rest. With a the largest magnitude of a channel and w that of the weights that read it,
s = sqrt(a / w).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of, sole_user
from edgeopt.transforms.groups import float_users, is_output, name_of
from edgeopt.transforms.repair._layers import Layer, float_weight
from edgeopt.transforms.repair._pairs import Pair
from edgeopt.transforms.repair._repair import Fitting

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
HOMOGENEOUS = frozenset({"Relu", "LeakyRelu"})
_WIDEST = 32.0
"""Factors lie within this and its inverse: farther apart the steps of the weights suffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """A value between two layers whose channels may be scaled.

    Args:
        pair: Of the value; read by integer layers alone.
        source: The value that its producer makes, before homogeneous functions.
    """

    pair: Pair
    source: ir.Value


def seam(pair: Pair) -> Seam | None:
    """Back from a pair to what makes its value; None where others see the value on the way."""
    if pair.others or not pair.readers:
        return None
    value = pair.value
    while True:
        made = value.producer()
        if made is None or made.op_type not in HOMOGENEOUS or made.inputs[0] is None:
            return Seam(pair=pair, source=value)
        value = made.inputs[0]
        # A pair between them would have to move too.
        if is_output(value) or float_users(value) != (made,) or sole_user(value) is not made:
            return None


def factors(seam: Seam, fitting: Fitting) -> tuple[Floats, float] | None:
    """s [channels] and the factor of the pair's scale; None where nothing is known or gained."""
    name, axis = name_of(seam.pair.value), seam.pair.readers[0].float_axis
    known = fitting.evidence.channels(fitting.reference, [name], axis=axis).get(name)
    if known is None or not (np.isfinite(known.low).all() and np.isfinite(known.high).all()):
        return None
    size = np.maximum(-known.low, known.high)
    weight = np.max([_read(layer, len(size)) for layer in seam.pair.readers], axis=0)
    if not np.all(np.isfinite(weight)) or not (size > 0).any() or not (weight > 0).any():
        return None
    size = np.maximum(size, 1e-3 * size.max())
    weight = np.maximum(weight, 1e-3 * weight.max())
    found = np.sqrt(size / weight)
    found = np.clip(found / np.exp(np.log(found).mean()), 1 / _WIDEST, _WIDEST)
    low, high = seam.pair.codes
    reach = max(
        float((known.high / found).max(initial=0.0)) / (high - seam.pair.zero + 1e-9),
        float((-known.low / found).max(initial=0.0)) / (seam.pair.zero - low + 1e-9)
        if seam.pair.zero > low
        else 0.0,
    )
    return found, reach / seam.pair.scale


def move(seam: Seam, found: tuple[Floats, float], fitting: Fitting) -> None:
    """Multiply the readers' weights by s and bring the pair to its new range.

    Whoever calls divides what makes the value.
    """
    for layer in seam.pair.readers:
        _multiply(layer, found[0], fitting)
    seam.pair.put_scale(fitting.constants, seam.pair.scale * found[1])


def _multiply(layer: Layer, s: Floats, fitting: Fitting) -> None:
    codes = layer.codes()
    if _is_depthwise(layer, len(s)):
        layer.put_weight_scale(fitting.constants, layer.scale() * s)
        return
    shape = [1, -1, *[1] * (codes.ndim - 2)]
    spread = layer.scale().reshape(-1, *[1] * (codes.ndim - 1))
    weight = _float(layer, fitting.reference, codes * spread) * s.reshape(shape)
    others = tuple(range(1, codes.ndim))
    scale = np.abs(weight).max(axis=others) / layer.limit()
    scale = np.where(scale > 0, scale, 1.0).astype(np.float32).astype(np.float64)
    limit = layer.limit()
    made = np.clip(np.rint(weight / scale.reshape(spread.shape)), -limit, limit)
    layer.put_weight(fitting.constants, made.astype(np.int64))
    layer.put_weight_scale(fitting.constants, scale)


def _float(layer: Layer, reference: ir.Model, coded: Floats) -> Floats:
    """The weight before quantization; from the codes where it was scaled since."""
    found = float_weight(layer, reference)
    near = np.abs(found - coded).max() <= 2 * layer.scale().max()
    return found if near else coded


def _read(layer: Layer, channels: int) -> Floats:
    """Largest weight that reads each input channel; NaN where the layer does not fit."""
    codes = layer.codes()
    scale = layer.scale().reshape(-1, *[1] * (codes.ndim - 1))
    size = np.abs(codes * scale)
    if _has_channel_scales(layer):
        if _is_depthwise(layer, channels):
            return size.reshape(channels, -1).max(axis=1)
        if layer.groups == 1 and codes.shape[1] == channels:
            return size.max(axis=(0, *range(2, codes.ndim)))
    return np.full(channels, np.nan)


def _is_depthwise(layer: Layer, channels: int) -> bool:
    shape = layer.codes().shape
    return layer.groups == channels and shape[0] == channels and channels > 1


def _has_channel_scales(layer: Layer) -> bool:
    found = array_of(layer.weight.inputs[1])
    return found is not None and found.ndim == 1
