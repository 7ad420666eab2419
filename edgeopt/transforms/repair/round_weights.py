"""Round each layer's weight so that its result, not its weight, is nearest to the float one.

Layer after layer, with everything before it rounded already: from the layer's float inputs X and
the integer ones X' over calibration samples, the weight that would best repair what went before,
W* = W + W (X - X') X'^T (X' X'^T + l I)^-1, is rounded input by input, each rounding error being
spread over the inputs that are still open by the inverse of X' X'^T.

"GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (Frantar et
al., ICLR 2023), algorithm 1, with the inputs in descending order of their power. Codes stay at the
scales that they have; the bias takes up the mean that is left.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.transforms.groups import name_of
from edgeopt.transforms.repair._columns import columns, is_plain, matrix
from edgeopt.transforms.repair._layers import Layer, float_bias, float_weight, layers
from edgeopt.transforms.repair._repair import Fitting, Repair
from edgeopt.transforms.repair._stages import Stages

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_PLACES = 64
_INPUTS = 2048
_DAMPING = 0.01
_TRUST = 0.1
"""Weight of the given weights beside the samples: keeps layers of few samples from overfitting."""


def _roundable(graph: ir.Graph) -> list[list[Layer]]:
    levels = [
        [one for one in level if is_plain(one) and _width(one) <= _INPUTS]
        for level in layers(graph)
    ]
    return [level for level in levels if level]


def _width(layer: Layer) -> int:
    return matrix(layer, layer.codes()).shape[-1]


def _able(graph: ir.Graph) -> bool:
    return bool(_roundable(graph))


def _round_all(fitting: Fitting) -> None:
    integer = Stages(fitting.model, fitting.feeds)
    reference = Stages(fitting.reference, fitting.feeds)
    known = {value.name for value in fitting.reference.graph.inputs} | {
        output.name for node in fitting.reference.graph for output in node.outputs
    }
    for level in _roundable(fitting.model.graph):
        some = [one for one in level if name_of(one.float_source) in known]
        integer.advance([one.source.name or "" for one in some])
        reference.advance([name_of(one.float_source) for one in some])
        for layer in some:
            weight = float_weight(layer, fitting.reference)
            _round(layer, weight, fitting, (reference, integer))
            integer.refresh(fitting.model)


PLUGIN = Repair(name="round_weights", able=_able, fit=_round_all, costly=True)


def _round(layer: Layer, weight: Floats, fitting: Fitting, runs: tuple[Stages, Stages]) -> None:
    name, here = name_of(layer.float_source), layer.source.name or ""
    wanted = np.concatenate(
        [columns(layer, layer.arranged(v[name]), _PLACES) for v in runs[0].values], axis=2
    )
    found = np.concatenate([columns(layer, v[here], _PLACES) for v in runs[1].values], axis=2)
    means = wanted.mean(axis=2, keepdims=True), found.mean(axis=2, keepdims=True)
    values = layer.bias_values()
    if values is not None:
        wanted, found = wanted - means[0], found - means[1]
    power: Floats = found @ found.transpose(0, 2, 1)
    spread: Floats = np.trace(power, axis1=1, axis2=2)[:, None, None] / power.shape[1] + 1e-12
    eye = np.eye(power.shape[1])
    given = matrix(layer, weight)
    missing: Floats = (wanted - found) @ found.transpose(0, 2, 1)
    solved = np.linalg.solve(power + _TRUST * spread * eye, missing.transpose(0, 2, 1))
    repaired = np.asarray(solved, np.float64)
    goal: Floats = given + given @ repaired.transpose(0, 2, 1)
    scale = layer.scale().reshape(given.shape[0], given.shape[1])
    codes = rounded(goal, scale, power + _DAMPING * spread * eye, layer.limit())
    layer.put_weight(fitting.constants, codes.reshape(layer.codes().shape))
    if values is not None:
        change = given @ means[0] - (codes * scale[..., None]) @ means[1]
        before = float_bias(layer, fitting.reference)
        whole = values if before is None else before
        layer.put_bias(fitting.constants, whole + change.reshape(-1))


def rounded(goal: Floats, scale: Floats, power: Floats, limit: int) -> npt.NDArray[np.int64]:
    """Codes [groups, out, K] whose products differ least from the goal's.

    Args:
        goal: Real weights [groups, out, K].
        scale: Of each row [groups, out].
        power: Positive definite X X^T [groups, K, K].
        limit: Codes lie within -limit and limit.
    """
    order = np.argsort(-np.diagonal(power, axis1=1, axis2=2), axis=1)
    rows = np.arange(len(power))[:, None]
    sorted_power = power[rows[..., None], order[:, :, None], order[:, None, :]]
    spread = np.linalg.cholesky(np.linalg.inv(sorted_power)).transpose(0, 2, 1)
    open_ = np.take_along_axis(goal, order[:, None, :], axis=2).copy()
    codes = np.zeros(goal.shape, np.int64)
    for index in range(goal.shape[2]):
        column = open_[:, :, index]
        made = np.clip(np.rint(column / scale), -limit, limit)
        codes[:, :, index] = made
        error = (column - made * scale) / spread[:, index, index][:, None]
        open_[:, :, index + 1 :] -= error[..., None] * spread[:, index, None, index + 1 :]
    back = np.argsort(order, axis=1)
    return np.take_along_axis(codes, back[:, None, :], axis=2)
