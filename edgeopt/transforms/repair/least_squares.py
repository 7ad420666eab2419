"""Solve the layers anew that read what was pruned, so that they make what they made before.

Layer after layer, in the order of the graph and with everything before it repaired already: over
calibration samples the weight W and bias b for which W X' + b is nearest to the given model's
result Y at this layer, X' being what the layer reads now. A ridge pulls W to what is left of the
old one: samples are few. Where the layer's own outputs were cut too, so is Y.

"Channel Pruning for Accelerating Very Deep Neural Networks" (He et al., ICCV 2017), section 3.1,
in the sequential form, with the bias solved jointly. Without it a cut of a quarter of the channels
left nothing of an OCR net, and with it 96 %. A quarter of the samples are under the built-in
shifts: what was solved on plain ones alone failed on pages with other letters. Many samples matter
more than many places in each.

Nothing is re-run for a layer: both nets advance piece by piece, and of their values only sums are
kept. Layers whose inputs are as they were are left alone.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.transforms.repair._kept import kept_rows
from edgeopt.transforms.repair._repair import Fitting, Repair
from edgeopt.transforms.repair._solve import Sums
from edgeopt.transforms.repair._stages import Stages
from edgeopt.transforms.repair._weighted import Weighted, columns, separate, weighted
from edgeopt.transforms.restated import as_stated

Array = npt.NDArray[Any]
RIDGE = 1e-3
_INPUTS = 4608
"""Widest layer that is solved: 512 channels of 3 x 3; its sums take 170 MB."""
_ROWS = (4096, 16384)
_ROWS_AN_INPUT = 4
_EQUAL = 1e-5
_LIVE_BYTES = 500_000_000


def _layers(graph: ir.Graph) -> Iterator[Weighted]:
    found = (weighted(node) for node in graph)
    return (layer for layer in found if layer is not None)


def _able(graph: ir.Graph) -> bool:
    return next(_layers(graph), None) is not None


def _solve_all(fitting: Fitting) -> None:
    feeds = fitting.feeds[: _affordable(fitting)]
    reference = as_stated(fitting.reference, fitting.model)
    before = {layer.result.name: layer for layer in _layers(reference.graph)}
    runs = Stages(reference, feeds), Stages(fitting.model, feeds)
    for seed, layer in enumerate(list(_layers(fitting.model.graph))):
        given = before.get(layer.result.name)
        if given is None or layer.matrix().shape[-1] > _INPUTS:
            continue
        runs[0].advance([given.source.name or "", given.result.name or ""])
        runs[1].advance([layer.source.name or ""])
        if _solve(given, layer, runs, fitting, np.random.default_rng(seed)):
            runs[1].refresh(fitting.model)


PLUGIN = Repair(
    name="least_squares",
    able=_able,
    fit=_solve_all,
    prepare=separate,
    on_float=True,
    samples=256,
)


def _affordable(fitting: Fitting) -> int:
    """How many samples' live values fit into memory, by what one sample needs."""
    most = 0
    stages = [Stages(model, fitting.feeds[:1]) for model in (fitting.reference, fitting.model)]
    for layer in _layers(fitting.model.graph):
        for one in stages:
            one.advance(name for name in [layer.source.name or ""] if one.knows(name))
        live = sum(array.nbytes for one in stages for array in one.values[0].values())
        most = max(most, live)
    return max(int(_LIVE_BYTES // max(most, 1)), 2)


def _solve(
    given: Weighted,
    layer: Weighted,
    runs: tuple[Stages, Stages],
    fitting: Fitting,
    generator: np.random.Generator,
) -> bool:
    """Whether the layer was solved anew."""
    rows = kept_rows(given, layer)
    old = layer.matrix()
    if rows is None or _untouched(given, layer, runs):
        return False
    count = min(max(_ROWS_AN_INPUT * old.shape[-1], _ROWS[0]), _ROWS[1])
    each = math.ceil(count / len(runs[0].values))
    sums = Sums(old.shape[0], old.shape[2], old.shape[1])
    for wanted, found in zip(runs[0].values, runs[1].values, strict=True):
        y, x = wanted.get(given.result.name or ""), found.get(layer.source.name or "")
        if y is None or x is None:
            return False
        pair = _pair(layer, x, np.moveaxis(y, given.axis, 0)[rows], each, generator)
        if pair is None:
            return False
        sums.add(*pair)
    weight, bias = sums.solved(old, RIDGE, bias=layer.adds is not None)
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        return False
    _put(layer, weight, bias, fitting)
    return True


def _put(layer: Weighted, weight: Array, bias: Array, fitting: Fitting) -> None:
    value = layer.node.inputs[1]
    assert value is not None, "layers have weights"
    made = layer.weight_from(weight)
    held = None if layer.adds is None else layer.adds.inputs[layer.bias_index]
    put = None if held is None else layer.bias_from(bias.reshape(-1))
    fitting.constants.put(value, made)
    if held is not None and put is not None:
        fitting.constants.put(held, put)


def _pair(
    layer: Weighted, x: Array, y: Array, count: int, generator: np.random.Generator
) -> tuple[Array, Array] | None:
    """x [groups, K, places] and y [groups, out, places] of one sample.

    Args:
        y: Its results, kept channels first.
    """
    sizes = y.shape[2:] if layer.axis == 1 else ()
    flat = y.reshape(y.shape[0], -1)  # channels, then batch and places as in the value
    whole = flat.shape[1]
    places = np.sort(generator.choice(whole, min(count, whole), replace=False))
    if layer.axis == -1 and x.size // x.shape[-1] != whole:
        return None
    opposite = columns(layer, x, sizes, places)
    return opposite, flat[:, places].reshape(opposite.shape[0], -1, len(places))


def _untouched(given: Weighted, layer: Weighted, runs: tuple[Stages, Stages]) -> bool:
    """Whether the layer reads what it read, and every sample shows the same there."""
    if given.source.name != layer.source.name:
        return False
    name = layer.source.name or ""
    for wanted, found in zip(runs[0].values, runs[1].values, strict=True):
        one, other = wanted.get(name), found.get(name)
        if one is None or other is None or one.shape != other.shape:
            return False
        if float(np.abs(one - other).max(initial=0.0)) > _EQUAL * float(np.abs(one).max()):
            return False
    return True
