"""Clip each activation where that brings the results of the layers behind it nearer.

For the value before each pair that has a scale of its own, the range is tried at some shares of
what it is. What counts is not the error of the value but that of the products made from it, over
calibration samples: sum over readers of |W (q(x) - x)|^2, each beside its |W x|^2. Where others
read the codes too (an Add), the error of the value counts as well. The code of 0 stays.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.runtime import observe
from edgeopt.transforms.groups import name_of
from edgeopt.transforms.repair._columns import columns, is_plain, matrix
from edgeopt.transforms.repair._layers import Layer, layers
from edgeopt.transforms.repair._pairs import Pair, pairs
from edgeopt.transforms.repair._repair import Fitting, Repair

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
_PLACES = 128
_SAMPLES = 32
_GAIN = 0.97
"""A range is moved only where that takes a few per cent of the error."""


def _searched(graph: ir.Graph) -> list[Pair]:
    levels = [[one for one in level if is_plain(one)] for level in layers(graph)]
    return pairs(graph, levels)


def _able(graph: ir.Graph) -> bool:
    return bool(_searched(graph))


def _search(fitting: Fitting) -> None:
    made = {output.name for node in fitting.reference.graph for output in node.outputs}
    made |= {value.name for value in fitting.reference.graph.inputs}
    some = [pair for pair in _searched(fitting.model.graph) if name_of(pair.value) in made]
    names = [name_of(pair.value) for pair in some]
    sums = [np.zeros((len(pair.readers) + 1, len(_SHARES) + 1)) for pair in some]
    for found in observe(fitting.reference, names, fitting.feeds[:_SAMPLES]):
        for total, pair in zip(sums, some, strict=True):
            total += _errors(pair, found[name_of(pair.value)])
    errors = [(total[:, 1:] / (total[:, :1] + 1e-12)).sum(axis=0) for total in sums]
    for pair, row in zip(some, errors, strict=True):
        best = int(np.argmin(row))
        if row[best] < _GAIN * row[0]:
            pair.put_scale(fitting.constants, pair.scale * _SHARES[best])


PLUGIN = Repair(name="range_search", able=_able, fit=_search, costly=True)


def _errors(pair: Pair, x: Array) -> Floats:
    """Of one sample [readers and others, 1 + shares]: power, then its error at each share."""
    wide = x.astype(np.float64)
    seen = [wide, *(_coded(pair, wide, share) - wide for share in _SHARES)]
    rows = [[_power(layer, one) for one in seen] for layer in pair.readers]
    rows.append([float((one**2).mean()) if pair.others else 0.0 for one in seen])
    return np.array(rows)


def _coded(pair: Pair, x: Floats, share: float) -> Floats:
    low, high = pair.codes
    step = pair.scale * share
    return (np.clip(np.rint(x / step) + pair.zero, low, high) - pair.zero) * step


def _power(layer: Layer, x: Floats) -> float:
    codes = layer.codes()
    scale = layer.scale().reshape(-1, *[1] * (codes.ndim - 1))
    made = matrix(layer, codes * scale) @ columns(layer, layer.arranged(x), _PLACES)
    return float((made**2).mean())
