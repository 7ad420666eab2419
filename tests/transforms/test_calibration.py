"""What calibration finds out, how often it looks, and what it keeps."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.core.data import Feed, Part
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import observe
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.statistics import Statistics


class CountedFeeds(Sequence[Feed]):
    """Feeds that count how often each is taken."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds = feeds
        self.taken = 0

    def __len__(self) -> int:
        return len(self._feeds)

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Feed]: ...
    def __getitem__(self, index: int | slice) -> Feed | Sequence[Feed]:
        self.taken += 1
        return self._feeds[index]

    def __iter__(self) -> Iterator[Feed]:
        for index in range(len(self)):
            yield self[index]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def test_ranges_are_the_extremes_over_all_samples(store: ArtifactStore) -> None:
    """Every float value of the graph, its inputs included, has its exact minimum and maximum."""
    model = graphs.residual()
    feeds = graphs.random_feeds(model, 5)
    graph = opened(model)
    names = ["x", "stem", "relu1", "sum", "y"]
    found, digest = Statistics(Part(name="c", feeds=feeds), store).ranges(graph, names, None)
    seen = list(observe(graph, names, feeds))
    for name in names:
        values = np.concatenate([one[name].reshape(-1) for one in seen])
        assert found[name] == Range(low=float(values.min()), high=float(values.max()))
    assert store.path(digest) is not None


def test_one_pass_for_all_values_and_all_clones(store: ArtifactStore) -> None:
    """The samples are read once, however many values and clones of the graph are asked about."""
    model = graphs.conv_chain()
    feeds = CountedFeeds(graphs.random_feeds(model, 6))
    statistics = Statistics(Part(name="c", feeds=feeds), store)
    graph = opened(model)
    first = statistics.ranges(graph, ["relu1"], None)[1]
    taken = feeds.taken
    assert taken == len(feeds)
    for name in ("x", "conv2", "logits"):
        assert statistics.ranges(graph.clone(), [name], None)[1] == first
    assert feeds.taken == taken


def test_another_weight_is_another_graph(store: ArtifactStore) -> None:
    """A graph with one changed weight is calibrated anew."""
    model = graphs.gemm_chain()
    statistics = Statistics(Part(name="c", feeds=graphs.random_feeds(model, 3)), store)
    graph = opened(model)
    before, digest = statistics.ranges(graph, ["fc1"], None)
    changed = Editor(graph.clone())
    node = next(node for node in changed.graph if node.outputs[0].name == "fc1")
    weight = changed.initializer("doubled", 2 * np.asarray(node.inputs[1].const_value))
    changed.set_input(node, 1, weight)
    after, other = statistics.ranges(changed.model, ["fc1"], None)
    assert digest != other
    assert before != after


def test_stored_ranges_are_used_without_data(store: ArtifactStore) -> None:
    """A replay that names the artifact needs no samples."""
    model = graphs.gemm_chain()
    graph = opened(model)
    part = Part(name="c", feeds=graphs.random_feeds(model, 3))
    found, digest = Statistics(part, store).ranges(graph, ["fc1", "x"], None)
    replayed = Statistics(None, store)
    assert replayed.ranges(graph, ["fc1", "x"], digest) == (found, digest)
    assert replayed.ranges(graph, ["unknown"], digest) == ({}, "")


def test_state_passes_from_sample_to_sample_of_a_group(store: ArtifactStore) -> None:
    """The state output feeds the state input within a group and starts anew in the next."""
    model = graphs.lstm()
    feeds = graphs.random_feeds(model, 4)
    group = np.array([0, 0, 1, 1])
    part = Part(name="c", feeds=feeds, group=group)
    statistics = Statistics(part, store, state={"hn": "h", "cn": "c"})
    graph = opened(model)
    found, _ = statistics.ranges(graph, ["hn"], None)
    ends: list[float] = []
    state: dict[str, np.ndarray] = {}
    for index, feed in enumerate(feeds):
        given = {**feed, **state} if index % 2 else feed
        (one,) = observe(graph, ["hn", "cn"], [given])
        state = {"h": one["hn"], "c": one["cn"]}
        ends += [float(one["hn"].min()), float(one["hn"].max())]
    assert found["hn"] == Range(low=min(ends), high=max(ends))
    unchained, _ = Statistics(part, store).ranges(graph, ["hn"], None)
    assert unchained != found


def test_means_are_a_channel(store: ArtifactStore) -> None:
    """Means run over samples and all axes but the channel's."""
    model = graphs.conv_chain()
    feeds = graphs.random_feeds(model, 3)
    graph = opened(model)
    statistics = Statistics(Part(name="c", feeds=feeds), store)
    found = statistics.means(graph, ["conv2", "logits"])
    seen = list(observe(graph, ["conv2", "logits"], feeds))
    wanted = np.concatenate([one["conv2"] for one in seen]).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(found["conv2"], wanted, rtol=1e-5)
    first = statistics.means(graph, ["logits"], axis=-1, limit=1)
    np.testing.assert_allclose(first["logits"], seen[0]["logits"].mean(axis=0), rtol=1e-5)


def test_arrays_come_back(store: ArtifactStore) -> None:
    """What is kept is recalled, and an unknown digest is None."""
    statistics = Statistics(None, store)
    arrays = {"a.b/c": np.arange(3, dtype=np.int32), "d": np.ones((2, 2))}
    digest = statistics.keep(arrays)
    recalled = statistics.recall(digest)
    assert recalled is not None
    assert {k: v.tolist() for k, v in recalled.items()} == {
        k: v.tolist() for k, v in arrays.items()
    }
    assert statistics.keep(arrays) == digest
    assert statistics.recall("sha256:" + "0" * 64) is None


def test_values_that_are_not_finite_have_no_range(store: ArtifactStore) -> None:
    """A value that overflows is left out, so that nothing is quantized with it."""
    b = graphs.Builder()
    big = b.constant("big", np.full((), 3e38, np.float32))
    b.node("Mul", ["x", big], "huge")
    b.node("Mul", ["huge", big], "y")
    model = b.model([("x", "float32", (1, 4))], [("y", "float32", (1, 4))])
    feeds = [{"x": np.ones((1, 4), np.float32)}]
    graph: ir.Model = opened(model)
    found, _ = Statistics(Part(name="c", feeds=feeds), store).ranges(graph, ["x", "y"], None)
    assert set(found) == {"x"}
