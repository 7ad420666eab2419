"""A process of its own: how much more memory calibration takes than the model itself.

    python calibration_memory.py LAYERS CHANNELS SIZE SAMPLES BUDGET_BYTES

prints bytes over the peak of plain inference, and the bytes of all values of one sample.
"""

import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np

from edgeopt.core.data import Feed, Part
from edgeopt.graph.runtime import observe
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.calibration.statistics import Statistics


class DrawnFeeds(Sequence[Feed]):
    """Samples that are made when they are read, so that they take no memory themselves."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self._count = count
        self._shape = shape

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Feed]: ...
    def __getitem__(self, index: int | slice) -> Feed | Sequence[Feed]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index >= self._count:
            raise IndexError(index)
        noise = np.random.default_rng(index).normal(size=self._shape)
        return {"x": noise.astype(np.float32)}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(layers: int, channels: int, size: int, samples: int, budget_bytes: int) -> None:
    """Run the model, then calibrate it, and compare the peaks."""
    b = graphs.Builder()
    source = "x"
    for index in range(layers):
        made = b.conv(source, f"conv{index}", (channels, channels))
        source = b.node("Relu", [made], f"relu{index}")
    shape = (1, channels, size, size)
    model = b.model([("x", "float32", shape)], [(source, "float32", shape)])
    graph = opened(model)
    part = Part(name="calibration", feeds=DrawnFeeds(samples, shape))
    for _ in observe(graph, [source], [part.feeds[0], part.feeds[1]]):
        pass
    before = _peak()
    with tempfile.TemporaryDirectory() as folder:
        statistics = Statistics(
            part, ArtifactStore(Path(folder)), limit=samples, budget_bytes=budget_bytes
        )
        found, _ = statistics.ranges(graph, [source], None, method="mse")
    if source not in found:
        raise SystemExit("no range was found")
    print(_peak() - before, 4 * int(np.prod(shape)) * (2 * layers + 1))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
