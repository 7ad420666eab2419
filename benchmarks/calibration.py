"""How much memory calibration takes beyond the model: 50 layers, 1,000 samples, every range method.

    python benchmarks/calibration.py [--layers 50] [--channels 16] [--size 28] [--samples 1000]

In one fresh process the model is run first, and its peak of resident memory read; then it is
calibrated by one range method after the other, and what the peak has grown by is printed for each.
All methods read what one streaming pass has seen; samples are drawn when they are read, so that
they take no memory themselves. The target: 500 MB more than the model needs, for any of them.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np

from edgeopt.core.data import Feed, Part
from edgeopt.graph.runtime import observe
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.calibration.methods import METHODS
from edgeopt.transforms.calibration.statistics import Statistics

TARGET_BYTES = 500e6


class DrawnFeeds(Sequence[Feed]):
    """Samples that are made when they are read."""

    def __init__(self, count: int, shape: tuple[int, ...]) -> None:
        self._count, self._shape = count, shape

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Feed]: ...
    def __getitem__(self, index: int | slice) -> Feed | Sequence[Feed]:
        if isinstance(index, slice):
            return DrawnFeeds(len(range(*index.indices(self._count))), self._shape)
        if index >= self._count:
            raise IndexError(index)
        noise = np.random.default_rng(index).normal(size=self._shape)
        return {"x": noise.astype(np.float32)}


def peak_bytes() -> int:
    """The most resident memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Run, calibrate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--size", type=int, default=28)
    parser.add_argument("--samples", type=int, default=1000)
    asked = parser.parse_args()
    b, last = Builder(), "x"
    for index in range(asked.layers):
        made = b.conv(last, f"conv{index}", (asked.channels, asked.channels))
        last = b.node("Relu", [made], f"relu{index}")
    shape = (1, asked.channels, asked.size, asked.size)
    graph = opened(b.model([("x", "float32", shape)], [(last, "float32", shape)]))
    part = Part(name="calibration", feeds=DrawnFeeds(asked.samples, shape))
    for _ in observe(graph, [last], [part.feeds[0], part.feeds[1]]):
        pass
    before = peak_bytes()
    everything = 4 * int(np.prod(shape)) * (2 * asked.layers + 1) * asked.samples
    print(f"{asked.layers} layers, {asked.samples} samples, {everything / 1e6:.0f} MB of values")
    print(f"the model alone: {before / 1e6:.0f} MB resident")
    with tempfile.TemporaryDirectory() as folder:
        statistics = Statistics(part, ArtifactStore(Path(folder)), limit=asked.samples)
        for method in METHODS:
            start = time.perf_counter()
            found, _ = statistics.ranges(graph, [last], None, method=method)
            spent = time.perf_counter() - start
            if last not in found:
                raise SystemExit(f"{method} found no range")
            print(f"  {method:<10} {(peak_bytes() - before) / 1e6:6.1f} MB more, {spent:.1f} s")
    verdict = "met" if peak_bytes() - before <= TARGET_BYTES else "missed"
    print(f"target {TARGET_BYTES / 1e6:.0f} MB {verdict}")


if __name__ == "__main__":
    main()
