"""What calibration finds out, how often it looks, and what it keeps."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.data import Feed, Part
from edgeopt.errors import UsageError
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import observe
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.methods import METHODS, method_of
from edgeopt.transforms.calibration.observation import BINS, Observation
from edgeopt.transforms.calibration.passes import passes
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
    """Samples are read once, however many values, methods and clones of the graph are asked about.

    The first one is read once more: it tells the sizes of free dimensions.
    """
    model = graphs.conv_chain()
    feeds = CountedFeeds(graphs.random_feeds(model, 6))
    statistics = Statistics(Part(name="c", feeds=feeds), store)
    graph = opened(model)
    first = statistics.ranges(graph, ["relu1"], None)[1]
    taken = feeds.taken
    assert taken == len(feeds) + 1
    for method in METHODS:
        statistics.ranges(graph, ["relu1"], None, method=method)
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


def _seen(*samples: np.ndarray) -> Observation:
    one = Observation()
    for sample in samples:
        one.add(sample)
    return one


@given(st.lists(st.floats(-12, 12), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_an_observation_does_not_depend_on_how_samples_are_split(
    exponents: list[float], seed: int
) -> None:
    """Extremes and counts of samples of any size in turn are those of the merged halves."""
    draw = np.random.default_rng(seed)
    shapes = [(1, 3, int(draw.integers(1, 5))) for _ in exponents]
    samples = [
        (draw.normal(size=shape) * 10**exponent).astype(np.float32)
        for shape, exponent in zip(shapes, exponents, strict=True)
    ]
    whole = _seen(*samples)
    flat = np.concatenate([sample.reshape(-1) for sample in samples])
    assert (whole.low, whole.high) == (float(flat.min()), float(flat.max()))
    assert whole.counts.sum() == flat.size
    assert np.abs(flat).max() <= whole.limit
    placed, _ = np.histogram(flat, BINS, (-whole.limit, whole.limit))
    assert np.abs(np.cumsum(placed - whole.counts)).max() <= 1
    halves = _seen(*samples[:1]).merged(_seen(*samples[1:])) if samples[1:] else whole
    np.testing.assert_array_equal(halves.counts, whole.counts)
    rows = np.concatenate([sample[0] for sample in samples], axis=1)
    channels = whole.channels[1]
    assert channels is not None
    np.testing.assert_array_equal(channels.low, rows.min(axis=1))
    np.testing.assert_allclose(channels.total, rows.sum(axis=1), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("axis", [1, -1])
def test_masks_of_the_lowest_float_have_a_finite_sum(dtype: type[np.floating], axis: int) -> None:
    """What an attention mask adds is as low as numbers go: no row of it overflows."""
    lowest = float(np.finfo(dtype).min)
    seen = _seen(np.full((1, 4, 8), lowest, dtype))
    channels = seen.channels[axis]
    assert channels is not None
    np.testing.assert_allclose(channels.total, lowest * 32 / len(channels.total))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_stays_within_the_extremes(name: str) -> None:
    """Whatever the values, the range lies within them and is not empty."""
    draw = np.random.default_rng(0)
    for sample in (
        draw.normal(size=(1, 4000)),
        np.maximum(draw.normal(size=(1, 4000)), 0),
        -np.abs(draw.standard_cauchy(size=(1, 4000))),
        np.zeros((1, 5)),
        np.full((2, 3), 7.5),
    ):
        seen = _seen(sample.astype(np.float32))
        found = method_of(name)(seen)
        assert seen.low <= found.low <= found.high <= seen.high


def test_methods_clip_an_outlier() -> None:
    """One element far out: the extremes keep it, the others cut it off and keep the bulk."""
    draw = np.random.default_rng(1)
    samples = [draw.normal(size=(1, 20000)).astype(np.float32) for _ in range(8)]
    samples[3][0, 0] = 60.0
    seen = _seen(*samples)
    assert method_of("minmax")(seen).high == 60.0
    for name in ("average", "p99.9", "entropy"):
        assert 2.0 < method_of(name)(seen).high < 15.0, name
    assert 2.0 < method_of("mse")(seen).high < 60.0


def test_mse_finds_the_least_error() -> None:
    """Coding the samples with its range leaves no more error than with any other tried."""
    draw = np.random.default_rng(2)
    sample = draw.laplace(size=(1, 60000)).astype(np.float32)
    found = method_of("mse")(_seen(sample))

    def error(low: float, high: float) -> float:
        step = (high - low) / 255
        coded = np.clip(np.rint((sample - low) / step), 0, 255) * step + low
        return float(((coded - sample) ** 2).mean())

    low, high = float(sample.min()), float(sample.max())
    others = [error(a * low, b * high) for a in (0.3, 0.5, 0.7, 1) for b in (0.3, 0.5, 0.7, 1)]
    assert error(found.low, found.high) <= 1.02 * min(others)


@pytest.mark.parametrize("name", ["", "max", "p", "p40", "p101", "percentile", "minmax+narrow"])
def test_an_unknown_method_is_a_usage_error(name: str) -> None:
    """A wrong name is refused with the list of the right ones."""
    with pytest.raises(UsageError, match="no range method"):
        method_of(name)


def test_broad_samples_widen_the_ranges(store: ArtifactStore) -> None:
    """With `+broad` the augmented samples count too; without it they do not."""
    model = graphs.gemm_chain()
    feeds = graphs.random_feeds(model, 4)
    louder = [{"x": 3 * feed["x"]} for feed in feeds]
    part, broad = Part(name="c", feeds=feeds), Part(name="b", feeds=louder)
    statistics = Statistics(part, store, broad=broad)
    graph = opened(model)
    alone, _ = statistics.ranges(graph, ["x"], None)
    both, _ = statistics.ranges(graph, ["x"], None, method="minmax+broad")
    assert alone["x"] == Statistics(part, store).ranges(graph, ["x"], None)[0]["x"]
    assert both["x"].high == pytest.approx(3 * alone["x"].high)


def test_values_known_from_another_graph_are_not_computed_again(store: ArtifactStore) -> None:
    """A graph that differs in its last layer only is calibrated behind that place only."""
    model = graphs.gemm_chain()
    statistics = Statistics(Part(name="c", feeds=graphs.random_feeds(model, 3)), store)
    graph = opened(model)
    before, _ = statistics.ranges(graph, ["x", "fc1"], None)
    known = statistics.known
    changed = Editor(graph.clone())
    last = [node for node in changed.graph if node.op_type == "Gemm"][-1]
    weight = last.inputs[1]
    assert weight is not None
    doubled = changed.initializer("doubled", 2 * np.asarray(weight.const_value))
    changed.set_input(last, 1, doubled)
    after, _ = statistics.ranges(changed.model, ["x", "fc1"], None)
    assert after == before
    new = statistics.known - known
    behind = list(changed.graph)[list(changed.graph).index(last) :]
    assert new == sum(len(node.outputs) for node in behind)


def test_what_a_graph_says_is_found_out_once(store: ArtifactStore) -> None:
    """For a graph, its clones and nothing else: many cuts of one graph share one order."""
    model = graphs.gemm_chain()
    statistics = Statistics(Part(name="c", feeds=graphs.random_feeds(model, 3)), store)
    graph = opened(model)
    made: list[ir.Model] = []

    def find(of: ir.Model, what: str = "order") -> int:
        return statistics.once(of, what, lambda: made.append(of) or len(made))

    assert [find(graph), find(graph.clone()), find(graph.clone())] == [1, 1, 1]
    assert find(graph, "something else") == 2
    changed = Editor(graph.clone())
    last = [node for node in changed.graph if node.op_type == "Gemm"][-1]
    doubled = changed.initializer("doubled", 2 * np.asarray(last.inputs[1].const_value))
    changed.set_input(last, 1, doubled)
    assert find(changed.model) == 3
    assert find(graph) == 1


def test_observations_outlive_the_process(store: ArtifactStore, tmp_path: Path) -> None:
    """Another run on the same data reads no sample; other data or a damaged file does."""
    model = graphs.conv_chain()
    graph = opened(model)

    def found(digest: str, method: str) -> tuple[object, object, int]:
        feeds = CountedFeeds(graphs.random_feeds(model, 4))
        part = Part(name="c", feeds=feeds)
        one = Statistics(part, store, kept=tmp_path / "kept", data_digest=digest)
        ranges = one.ranges(graph, ["x", "conv2"], None, method=method)
        totals = {k: v.total.tolist() for k, v in one.channels(graph, ["conv2"]).items()}
        return ranges, totals, feeds.taken

    first = found("sha256:1", "mse")
    assert first[2] == 5
    assert found("sha256:1", "mse") == (*first[:2], 0)
    assert found("sha256:2", "mse")[2] == 5
    for path in (tmp_path / "kept").glob("*"):
        path.write_bytes(b"PK")
    assert found("sha256:1", "mse") == first


def test_ragged_samples(store: ArtifactStore) -> None:
    """Samples of different lengths are calibrated; a channel axis that varies has no channels."""
    b = graphs.Builder()
    b.node("Relu", ["x"], "y")
    model = b.model([("x", "float32", ("N", "L"))], [("y", "float32", ("N", "L"))])
    feeds = [{"x": np.full((1, size), size - 3.5, np.float32)} for size in (1, 7, 3)]
    statistics = Statistics(Part(name="c", feeds=feeds), store)
    found, _ = statistics.ranges(opened(model), ["x", "y"], None)
    assert found == {"x": Range(low=-2.5, high=3.5), "y": Range(low=0.0, high=3.5)}
    assert statistics.channels(opened(model), ["x"]) == {}


def test_passes_keep_to_the_budget(store: ArtifactStore) -> None:
    """Small budgets give more passes, each within it, and the same ranges."""
    model = graphs.residual()
    graph = opened(model)
    feeds = graphs.random_feeds(model, 3)
    names = [node.outputs[0].name or "" for node in graph.graph]
    one = passes(graph.graph, names, feeds[0])
    assert one == [names]
    sizes = {name: array.nbytes for name, array in next(observe(graph, names, feeds)).items()}
    budget = 2 * max(sizes.values())
    several = passes(graph.graph, names, feeds[0], budget)
    assert [name for some in several for name in some] == names
    assert len(several) > 1
    assert all(sum(sizes[name] for name in some) <= budget for some in several)
    part = Part(name="c", feeds=feeds)
    small = Statistics(part, store, budget_bytes=budget).ranges(graph, names, None)
    assert small == Statistics(part, store).ranges(graph, names, None)


def test_memory_does_not_grow_with_samples_or_values() -> None:
    """Fifty layers whose values take 26 MB a sample, looked at 4 MB at a time.

    In a process of its own, against the peak of plain inference: all at once it would be 60 MB
    more; four times the samples are no more.
    """
    few, many = _more_memory(8), _more_memory(32)
    assert few < 45_000_000
    assert many < few + 8_000_000


def _more_memory(samples: int) -> int:
    script = Path(__file__).with_name("calibration_memory.py")
    given = [str(number) for number in (50, 16, 64, samples, 4_000_000)]
    done = subprocess.run(
        [sys.executable, str(script), *given],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    more, values = map(int, done.stdout.split())
    assert values > 26_000_000
    return more
