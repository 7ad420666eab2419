"""Take the mean error that quantization left out of the biases, layer after layer.

"Data-Free Quantization Through Weight Equalization and Bias Correction" (Nagel et al., ICCV
2019), section 4.2, in its empirical form: for each integer Conv, Gemm and MatMul the mean of its
result a channel, float minus integer, is added to the bias. Layers that depend on each other are
corrected in order, with everything before them corrected already: done for all at once it
destroys the model. The corrected bias stays int32 at the scale that it has, so the structure and
the kernels are unchanged.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.data import Feed
from edgeopt.graph.runtime import observe
from edgeopt.transforms.repair._layers import Layer, layers
from edgeopt.transforms.repair._repair import Fitting, Repair
from edgeopt.transforms.repair._stages import Stages

Array = npt.NDArray[Any]


def _with_bias(graph: ir.Graph) -> list[list[Layer]]:
    levels = [[one for one in level if one.bias is not None] for level in layers(graph)]
    return [level for level in levels if level]


def _able(graph: ir.Graph) -> bool:
    return bool(_with_bias(graph))


def _correct(fitting: Fitting) -> None:
    """Correct level after level."""
    levels = _with_bias(fitting.model.graph)
    goal = _float_means(fitting.reference, levels, fitting.feeds)
    stages = Stages(fitting.model, fitting.feeds)
    for level in levels:
        stages.advance([layer.result.name or "" for layer in level])
        for layer in level:
            here, values = layer.result.name or "", layer.bias_values()
            if values is None or layer.name not in goal:
                continue
            found = np.mean([_mean(v[here], layer.axis) for v in stages.values], axis=0)
            made = layer.put_bias(fitting.constants, values + goal[layer.name] - found)
            for sample in stages.values:
                sample[here] = _plus(sample[here], made - values, layer.axis)


PLUGIN = Repair(name="bias_correction", able=_able, fit=_correct, version=2, samples=160)
"""Of 64 samples 16 judge, to whom a third less error may still be chance."""


def _float_means(
    reference: ir.Model, levels: Sequence[Sequence[Layer]], feeds: Sequence[Feed]
) -> dict[str, Array]:
    made = {output.name for node in reference.graph for output in node.outputs}
    axis_of = {one.name: one.float_axis for level in levels for one in level if one.name in made}
    sums: dict[str, Array] = {}
    for found in observe(reference, list(axis_of), feeds):
        for name, array in found.items():
            sums[name] = sums.get(name, np.zeros(())) + _mean(array, axis_of[name])
    return {name: total / len(feeds) for name, total in sums.items()}


def _mean(array: Array, axis: int) -> npt.NDArray[np.float64]:
    """Mean a channel of one sample."""
    others = tuple(index for index in range(array.ndim) if index != axis % array.ndim)
    return array.mean(axis=others, dtype=np.float64)


def _plus(array: Array, change: Array, axis: int) -> Array:
    shape = [-1 if index == axis % array.ndim else 1 for index in range(array.ndim)]
    return (array + change.reshape(shape)).astype(array.dtype)
