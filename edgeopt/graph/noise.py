"""Signal over noise, value by value: how far a changed graph's values lie from the given one's."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.core.data import Array, Feed
from edgeopt.core.layers import SAME_DB
from edgeopt.errors import ModelError
from edgeopt.graph.runtime import observe

INPUTS = 4
"""Inputs that are compared: a layer has thousands of values of each."""
_LIMIT_BYTES = 400_000_000


class ValueReference:
    """All values of the given model on a few inputs, to hold others against.

    Both graphs run on this machine with codes as the graph writes them (quantize, dequantize,
    float arithmetic): what another runtime's integer kernels round beyond that is not in it.

    Args:
        base: The given model; unchanged.
        feeds: Real inputs; the first `INPUTS`, or fewer where all values would take too much
            memory.

    Raises:
        ModelError: Not even the values of one input fit, or some are no arrays.
        RuntimeFailure: The model does not run.
    """

    def __init__(self, base: ir.Model, feeds: Sequence[Feed]) -> None:
        names = _values(base)
        self._values: list[Mapping[str, Array]] = []
        self.feeds: list[Feed] = []
        size = 0
        for feed in feeds[:INPUTS]:
            found = next(iter(observe(base, names, [feed])))
            size += sum(array.nbytes for array in found.values())
            if size > _LIMIT_BYTES:
                break
            self._values.append(found)
            self.feeds.append(feed)
        if not self._values:
            raise ModelError(
                f"the values of one input take more than {_LIMIT_BYTES // 1_000_000} MB",
                hint="layers are compared without their signal-to-noise ratio",
            )

    def against(self, graph: ir.Model) -> dict[str, float]:
        """Value name to decibels, at most `SAME_DB`; what is not alike in shape is left out.

        Raises:
            RuntimeFailure: The graph does not run.
        """
        there = set(_values(graph))
        names = [name for name in self._values[0] if name in there]
        sums = {name: np.zeros(4) for name in names}
        for wanted, made in zip(self._values, observe(graph, names, self.feeds), strict=True):
            for name in list(sums):
                found = _moments(wanted[name], made[name])
                if found is None:
                    del sums[name]
                else:
                    sums[name] += found
        ratios = {name: _decibels(*found.tolist()) for name, found in sums.items()}
        return {name: ratio for name, ratio in ratios.items() if ratio is not None}


def _values(graph: ir.Model) -> list[str]:
    return [value.name for node in graph.graph for value in node.outputs if value.name]


def _moments(wanted: Array, made: Array) -> Array | None:
    """Count, sum, sum of squares, and squared differences; None for what is not comparable."""
    if wanted.shape != made.shape or wanted.dtype.kind not in "fiub" or not wanted.size:
        return None
    signal = wanted.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        noise = float(np.sum((made.astype(np.float64) - signal) ** 2))
    found = np.array([signal.size, signal.sum(), (signal**2).sum(), noise])
    return found if np.isfinite(found).all() else None


def _decibels(count: float, total: float, squares: float, noise: float) -> float | None:
    """The signal is the deviation from the mean: a constant offset carries nothing."""
    if noise == 0:
        return SAME_DB
    power = squares - total * total / count
    if power <= 0:
        return None
    return min(10 * math.log10(power / noise), SAME_DB)
