"""What a layer multiplies its weight with, as a matrix: `columns(layer, x)` is [groups, K, P].

The product of the layer's weight [groups, out, K] with it are the layer's results at P places
(all, or evenly spaced ones), without the bias.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.repair._layers import Layer
from edgeopt.transforms.repair._windows import taps

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def is_plain(layer: Layer) -> bool:
    """Whether the layer's padding is written out."""
    automatic = layer.node.attributes.get_string("auto_pad", "NOTSET")
    return layer.node.op_type != "Conv" or automatic in ("NOTSET", "VALID")


def matrix(layer: Layer, weight: Array) -> Array:
    """A weight [out, in, ...] as [groups, out / groups, K]."""
    return weight.reshape(layer.groups, weight.shape[0] // layer.groups, -1)


def columns(layer: Layer, x: Array, places: int) -> Floats:
    """What stands opposite the weight at up to so many places of one sample."""
    if layer.node.op_type != "Conv":
        rows = x.reshape(-1, x.shape[-1])
        return rows[_spaced(len(rows), places)].T[np.newaxis].astype(np.float64)
    axes = x.ndim - 2
    shape = layer.codes().shape[2:]
    get = layer.node.attributes.get_ints
    strides, dilations = get("strides", [1] * axes), get("dilations", [1] * axes)
    pads = get("pads", [0] * 2 * axes)
    margins = [(0, 0), (0, 0), *((pads[i], pads[i + axes]) for i in range(axes))]
    padded = np.pad(x, margins)
    spans = [(size - 1) * step for size, step in zip(shape, dilations, strict=True)]
    sizes = [(padded.shape[2 + i] - spans[i] - 1) // strides[i] + 1 for i in range(axes)]
    count = x.shape[0] * int(np.prod(sizes))
    batch, *start = np.unravel_index(_spaced(count, places), (x.shape[0], *sizes))
    found = taps(padded, batch, start, kernel=shape, strides=strides, dilations=dilations)
    grouped = found.reshape(len(batch), layer.groups, -1)
    return grouped.transpose(1, 2, 0).astype(np.float64)


def _spaced(count: int, at_most: int) -> npt.NDArray[np.int64]:
    if count <= at_most:
        return np.arange(count)
    return np.linspace(0, count - 1, at_most).astype(np.int64)
