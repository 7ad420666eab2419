"""Calibration that eats memory or fails: rows 26, 27 and 45 of the public issues."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.core.data import Feed, Part
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.calibration.methods import METHODS
from edgeopt.transforms.calibration.statistics import Statistics
from tests.field.as_user import (
    alone,
    built,
    integers,
    offered,
    placement,
    signal_db,
    space_of,
)


def _ragged(seed: int) -> list[Feed]:
    generator = np.random.default_rng(seed)
    shapes = ((2, 3, 16, 16), (1, 3, 20, 12), (1, 3, 7, 33), (2, 3, 12, 20)) * 3
    return [{"x": generator.normal(size=shape).astype(np.float32)} for shape in shapes]


def _free_sizes() -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "first", (3, 8))
    b.node("Relu", ["first"], "relu")
    b.conv("relu", "y", (8, 4))
    return b.model([("x", "float32", ("N", 3, "H", "W"))], [("y", "float32", ("N", 4, "H", "W"))])


def test_ragged_batches(tmp_path: Path) -> None:
    """optimum 409: samples of different sizes calibrate a model, with every range method."""
    model, feeds = _free_sizes(), _ragged(1)
    space = space_of(model, tmp_path, feeds=feeds)
    assert signal_db(model, built(space, integers(space)), _ragged(2)) > 30
    methods = offered(space, "calibrate")
    assert methods
    for method in methods:
        graph = alone(space, method, *offered(space, "static_qdq"))
        assert signal_db(model, graph, _ragged(2)) > 20
        assert placement(graph, feeds[1]).ran == 2


@pytest.mark.parametrize("method", METHODS)
def test_ragged_batches_by_method(method: str, tmp_path: Path) -> None:
    """ORT 11928: entropy and percentiles too find a range where no two samples have one size."""
    feeds = _ragged(3)
    statistics = Statistics(Part(name="c", feeds=feeds), ArtifactStore(tmp_path))
    found, _ = statistics.ranges(opened(_free_sizes()), ["x", "relu"], None, method=method)
    largest = max(float(feed["x"].max()) for feed in feeds)
    assert 0.2 * largest < found["x"].high <= 1.01 * largest
    assert found["relu"].low == pytest.approx(0, abs=1e-6)


class _Counted(list[Feed]):
    """Samples that are made when they are asked for, each a little different."""

    def __init__(self, count: int) -> None:
        super().__init__([{}] * count)
        self.made = 0

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index >= len(self):
            raise IndexError(index)
        self.made += 1
        generator = np.random.default_rng(index)
        return {"x": generator.normal(size=(1, 4, 8, 8)).astype(np.float32)}

    def __iter__(self):
        return (self[index] for index in range(len(self)))


def test_many_samples_of_fifty_layers(tmp_path: Path) -> None:
    """ORT 10503: what is kept of fifty layers does not grow with the samples, entropy included.

    That the memory of the process stays bounded is measured in the tests of calibration.
    """
    b = Builder()
    value = "x"
    for index in range(50):
        value = b.node("Relu", [b.conv(value, f"conv{index}", (4, 4), kernel=1)], f"relu{index}")
    shape = (1, 4, 8, 8)
    model = b.model([("x", "float32", shape)], [(value, "float32", shape)])
    names = [f"relu{index}" for index in range(50)]
    kept: list[int] = []
    for count in (20, 160):
        folder, feeds = tmp_path / str(count), _Counted(count)
        folder.mkdir()
        statistics = Statistics(Part(name="c", feeds=feeds), ArtifactStore(folder), limit=count)
        found, _ = statistics.ranges(opened(model), names, None, method="entropy")
        assert len(found) == 50
        assert feeds.made <= count + 1
        kept.append(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
    assert kept[1] < 2 * kept[0]


def test_symbolic_shapes_that_inference_gives_up_on(tmp_path: Path) -> None:
    """ORT 10484: MaxPool rounding up, Resize and Add with the input, on free height and width."""
    b = Builder()
    b.conv("x", "first", (3, 3))
    b.node("MaxPool", ["first"], "half", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    b.node("Resize", ["half", "", scales], "doubled", mode="nearest")
    b.node("Add", ["doubled", "x"], "sum")
    b.conv("sum", "y", (3, 4))
    model = b.model([("x", "float32", ("N", 3, "H", "W"))], [("y", "float32", ("N", 4, "H", "W"))])
    generator = np.random.default_rng(0)
    feeds = [
        {"x": generator.normal(size=(1, 3, high, wide)).astype(np.float32)}
        for high, wide in ((8, 8), (12, 10), (6, 16), (8, 14)) * 3
    ]
    space = space_of(model, tmp_path, feeds=feeds)
    graph = built(space, integers(space))
    assert signal_db(model, graph, feeds) > 25
    found = placement(graph, feeds[0])
    assert found.ran == found.asked == 2
    assert not found.traps
