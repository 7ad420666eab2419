"""What one more candidate costs: from a recipe to a file on disk, as in the middle of a search.

    python benchmarks/build.py [--rounds 15] [--profile]

The model has 200 nodes and just under 5 MB of weights. The prefix of the recipe and the
calibration are warm, as they are from the second candidate on; each candidate quantizes another
random half of the groups, or all but one. Beside it stands what a search would pay without
incremental insertion: the runtime's own tool, called again for the whole model. Both alternate in
one process. Target: 30 ms.

Apart from that stands what one more group costs, in memory, on the graph of a recipe that was read
before (target: 20 ms), and what is then paid for a file: serialising and writing. Both are given in
wall time and in CPU time, which a busy machine does not lengthen as much.
"""

import argparse
import cProfile
import gc
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

from edgeopt.core.action import Action, Recipe
from edgeopt.core.data import Feed, Part
from edgeopt.graph.read import read_model
from edgeopt.graph.write import to_bytes, write_aside, write_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.transform_exam import offer
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.quantize.static_qdq import PLUGIN
from edgeopt.transforms.replay import Workshop

TARGET_S = 0.030
GROUP_TARGET_S = 0.020
FEEDS = 16
Made = TypeVar("Made")


def model_of(*, blocks: int = 39, width: int = 42) -> onnx.ModelProto:
    """Residual blocks of five nodes: 200 nodes with the stem and the classifier."""
    b = Builder()
    b.node("Relu", [b.conv("x", "stem", (3, width), stride=2)], "r0")
    value = "r0"
    for index in range(1, blocks + 1):
        b.conv(value, f"a{index}", (width, width))
        b.node("Relu", [f"a{index}"], f"m{index}")
        b.conv(f"m{index}", f"b{index}", (width, width))
        b.node("Add", [f"b{index}", value], f"s{index}")
        value = b.node("Relu", [f"s{index}"], f"r{index}")
    b.node("GlobalAveragePool", [value], "pool")
    b.node("Flatten", ["pool"], "flat", axis=1)
    b.node("Gemm", ["flat", b.weight("w", 10, width), b.weight("c", 10)], "logits", transB=1)
    shape = (1, 3, 32, 32)
    return b.model([("x", "float32", shape)], [("logits", "float32", (1, 10))])


class Reader(CalibrationDataReader):
    """The calibration feeds in the tool's form."""

    def __init__(self, feeds: list[Feed]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next feed; None at the end."""
        feed = next(self._feeds, None)
        return None if feed is None else dict(feed)


class Bench:
    """A workshop that is warm, and the tool beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        proto = model_of()
        self.path = folder / "model.onnx"
        self.path.write_bytes(proto.SerializeToString())
        self.nodes, self.size = len(proto.graph.node), self.path.stat().st_size
        self.feeds = random_feeds(proto, FEEDS)
        part = Part(name="calibration", feeds=self.feeds)
        self.workshop = Workshop(
            read_model(self.path),
            evidence=Statistics(part, ArtifactStore(folder / "artifacts")),
            opset_ceiling=21,
            feed=self.feeds[0],
        )
        self.actions = PLUGIN.sites(self.workshop.normalized, offer())
        self._generator = np.random.default_rng(0)

    def recipe(self, round_: int) -> Recipe:
        """Another assignment every time: all groups but one, or a random half."""
        count = len(self.actions)
        left_out = {int(self._generator.integers(count))}
        if round_ % 2:
            left_out = set(self._generator.permutation(count)[: count // 2].tolist())
        chosen: list[Action] = [a for i, a in enumerate(self.actions) if i not in left_out]
        return self.workshop.recipe(chosen)

    def ours(self, recipe: Recipe) -> float:
        """Seconds from a recipe to a file."""
        start = time.perf_counter()
        write_model(self.workshop.build(recipe).graph, self.folder / "ours.onnx")
        return time.perf_counter() - start

    def grown(self) -> dict[str, list[tuple[float, float]]]:
        """Wall and CPU seconds of one more group, group after group, and of its file."""
        found: dict[str, list[tuple[float, float]]] = {"group": [], "serialise": [], "write": []}
        self.workshop.read(self.workshop.recipe(self.actions[:1]))
        for count in range(2, len(self.actions) + 1):
            recipe = self.workshop.recipe(self.actions[:count])
            built, spent = timed(lambda recipe=recipe: self.workshop.read(recipe))
            found["group"].append(spent)
            data, spent = timed(lambda built=built: to_bytes(built.graph))
            found["serialise"].append(spent)
            _, spent = timed(lambda data=data: write_aside(self.folder / "grown.onnx", data))
            found["write"].append(spent)
        return found

    def tool(self) -> float:
        """Seconds of the runtime's tool for one file, with as good types."""
        start = time.perf_counter()
        quantize_static(
            self.path,
            self.folder / "tool.onnx",
            Reader(self.feeds),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return time.perf_counter() - start


def timed(make: Callable[[], Made]) -> tuple[Made, tuple[float, float]]:
    """What was made, with wall and CPU seconds."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    made = make()
    return made, (time.perf_counter() - wall, time.process_time() - cpu)


def main() -> None:
    """Alternate both and print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true", help="where our time goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        print(f"{bench.nodes} nodes, {bench.size / 1e6:.2f} MB, {len(bench.actions)} groups")
        print(f"first candidate (calibrates {FEEDS} samples): {bench.ours(bench.recipe(0)):.3f} s")
        if options.profile:
            profile = cProfile.Profile()
            for round_ in range(options.rounds):
                recipe = bench.recipe(round_)
                profile.runcall(bench.ours, recipe)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            return
        steps = bench.grown()
        for name, spent in steps.items():
            wall, cpu = (median(column) * 1e3 for column in zip(*spent, strict=True))
            print(f"one more group, {name}: median {wall:.1f} ms, CPU {cpu:.1f} ms")
        cpu = median(spent[1] for spent in steps["group"])
        verdict = "met" if cpu <= GROUP_TARGET_S else "missed"
        print(f"target {GROUP_TARGET_S * 1e3:.0f} ms of CPU for one more group {verdict}")
        ours: list[float] = []
        tool: list[float] = []
        for round_ in range(options.rounds):
            ours.append(bench.ours(bench.recipe(round_)))
            tool.append(bench.tool())
        print(f"one more candidate: median {median(ours) * 1e3:.1f} ms, best {min(ours) * 1e3:.1f}")
        print(f"quantize_static:    median {median(tool) * 1e3:.1f} ms, best {min(tool) * 1e3:.1f}")
        ratio = median(b / a for a, b in zip(ours, tool, strict=True))
        verdict = "met" if median(ours) <= TARGET_S else "missed"
        print(f"ratio {ratio:.1f}; target {TARGET_S * 1e3:.0f} ms {verdict}")


if __name__ == "__main__":
    main()
