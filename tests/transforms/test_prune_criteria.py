"""What the criteria prefer, their orders as artifacts, and what a search is offered."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.random import Generator, default_rng

from edgeopt import plugins
from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.read import read_model
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.prunable import NETS
from edgeopt.testing.prune_exam import examine_prune, narrow_offer
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.calibration.moments import Moments
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.prune._readers import Reader
from edgeopt.transforms.prune.channels_greedy import elimination
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of

CRITERIA = [name for name in plugins.SHELVES["prune"].names() if name.startswith("channels_")]
WITH_DATA = ["channels_energy", "channels_greedy"]


def _redundant() -> onnx.ModelProto:
    """Four channels: a strong one, its copy, a weak one, and one that is always the same."""
    b = Builder()
    rows = np.zeros((4, 3, 1, 1), np.float32)
    rows[0, 0], rows[1, 0], rows[2, 1] = 2.0, 2.0, 0.5
    bias = np.array([0, 0, 0, 5], np.float32)
    b.node("Conv", ["x", b.constant("w", rows), b.constant("b", bias)], "a")
    b.node("Conv", ["a", b.constant("v", np.ones((2, 4, 1, 1), np.float32))], "y")
    return b.model([("x", "float32", (1, 3, 6, 6))], [("y", "float32", (1, 2, 6, 6))])


def _kept(name: str, model: onnx.ModelProto, store: ArtifactStore, keep: int) -> list[float]:
    """Weights of the first layer's rows that are left, largest of each."""
    editor = Editor(opened(model))
    made = transform_of(name)[1].apply(
        editor, Action.of(name, "a", keep=keep), evidence_of(model, store)
    )
    assert isinstance(made, Action)
    maker = next(node for node in editor.graph if node.outputs[0].name == "a")
    weight, bias = array_of(maker.inputs[1]), array_of(maker.inputs[2])
    assert weight is not None
    assert bias is not None
    return [float(max(abs(row).max(), number)) for row, number in zip(weight, bias, strict=True)]


def test_greedy_knows_what_others_stand_in_for(store: ArtifactStore) -> None:
    """A constant channel goes first, then one of two equal ones; a weak one alone stays."""
    assert _kept("channels_greedy", _redundant(), store, 3) == [2.0, 2.0, 0.5]
    assert _kept("channels_greedy", _redundant(), store, 2) == [2.0, 0.5]


def test_energy_keeps_what_is_large(store: ArtifactStore) -> None:
    """Without knowing that channels repeat, the weak one goes first."""
    assert _kept("channels_energy", _redundant(), store, 3) == [2.0, 2.0, 5.0]


def _reader(units: list[int], draw: Generator) -> Reader:
    size = len(units)
    x = draw.normal(size=(400, size)) @ draw.normal(size=(size, size))
    weight = draw.normal(size=(size, 3))
    products, covariance = weight @ weight.T, np.cov(x.T, bias=True)
    return Reader(np.array(units), np.diag(products), np.diag(covariance), products, covariance)


def _loss(reader: Reader, gone: Sequence[int]) -> float:
    """What a layer misses without some units, the others solved anew; a share of what it makes."""
    assert reader.covariance is not None
    assert reader.products is not None
    size, kept = len(reader.units), np.flatnonzero(~np.isin(reader.units, gone))
    regular = reader.covariance + 1e-3 * np.trace(reader.covariance) / size * np.eye(size)
    cross = regular[kept]
    left = regular - cross.T @ np.linalg.solve(regular[np.ix_(kept, kept)], cross)
    return float((left * reader.products).sum() / (reader.covariance * reader.products).sum())


@pytest.mark.parametrize("below", [1e-4, 1e-2])
def test_a_covariance_that_rounding_left_below_zero(below: float) -> None:
    """Every unit has a place in the order, and those that never vary go first."""
    draw = default_rng(3)
    reader = _reader(list(range(24)), draw)
    covariance = reader.covariance
    assert covariance is not None
    covariance[8:] = covariance[:, 8:] = 0.0
    covariance[np.arange(8, 24), np.arange(8, 24)] = -below * np.trace(covariance) / 24
    order = elimination(24, [reader]).tolist()
    assert sorted(order) == list(range(24))
    assert set(order[:16]) == set(range(8, 24))


@pytest.mark.parametrize(
    ("width", "places"),
    [
        (6, [[0, 1, 2, 3, 4, 5]]),
        (5, [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]),
        (5, [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [4, 2, 0]]),
        (4, [[3, 1, 1, 0, 2, 3, 3], [0, 1, 2, 3]]),
        (80, [list(range(80))]),
    ],
)
def test_elimination_is_what_solving_anew_says(width: int, places: list[list[int]]) -> None:
    """Each step removes the unit whose loss, with the others solved anew, is least."""
    draw = default_rng(5)
    found = [_reader(units, draw) for units in places]
    order = elimination(width, found).tolist()
    assert sorted(order) == list(range(width))
    steps = width - max(1, int(0.2 * width))
    for step in range(0, steps, max(1, width // 12)):
        gone, left = order[:step], order[step:]
        losses = {unit: sum(_loss(one, [*gone, unit]) for one in found) for unit in left}
        assert min(losses, key=lambda unit: losses[unit]) == order[step]


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("net", ["mobilenet", "c2f", "bert_block"])
def test_exam(name: str, net: str, store: ArtifactStore) -> None:
    """Zeroed equals removed for every criterion, of gates, halves and heads."""
    model = NETS[net]()
    evidence = evidence_of(model, store, random_feeds(model, 3, seed=1))
    applied = (
        examine_prune(name, model, evidence=evidence, offered=narrow_offer(2))
        if name != "channels_bn_scale"
        else ()
    )
    assert bool(applied) == (name not in ("channels_bn_scale", "channels_energy"))


def test_scales_say_what_goes() -> None:
    """The normalization's smallest scales go; without one there is nothing to go by."""
    model = graphs.conv_bn()
    editor = Editor(opened(model))
    apply = transform_of("channels_bn_scale")[1].apply
    scale = array_of(editor.graph.initializers["bn1.scale"])
    assert scale is not None
    assert isinstance(
        apply(editor, Action.of("channels_bn_scale", "conv1", keep=3), NoEvidence()), Action
    )
    norm = next(node for node in editor.graph if node.outputs[0].name == "bn1")
    left = array_of(norm.inputs[1])
    assert left is not None
    assert sorted(left.tolist()) == sorted(scale.tolist())[-3:]
    chain = Editor(opened(graphs.conv_chain()))
    made = apply(chain, Action.of("channels_bn_scale", "conv1", keep=4), NoEvidence())
    assert isinstance(made, Rejection)


@pytest.mark.parametrize("name", WITH_DATA)
def test_a_replay_uses_the_stored_order(name: str, store: ArtifactStore) -> None:
    """With its artifact an action needs no samples, and gives the same bytes."""
    model = graphs.conv_chain()
    action = Action.of(name, "conv1", keep=4)
    first, again = Editor(opened(model)), Editor(opened(model))
    transform = transform_of(name)[1]
    made = transform.apply(first, action, evidence_of(model, store))
    assert isinstance(made, Action)
    assert made.artifact("order")
    other = evidence_of(model, store, random_feeds(model, 1, seed=99))
    assert transform.apply(again, made, other) == made
    assert to_bytes(first.model) == to_bytes(again.model)


@pytest.mark.parametrize("name", WITH_DATA)
def test_without_samples_it_is_refused(name: str) -> None:
    """No data, no order: refused, and nothing changed."""
    editor = Editor(opened(graphs.conv_chain()))
    before = to_bytes(editor.model)
    made = transform_of(name)[1].apply(editor, Action.of(name, "conv1", keep=4), NoEvidence())
    assert isinstance(made, Rejection)
    assert "no calibration sample" in made.reason
    assert to_bytes(editor.model) == before


def test_one_pass_serves_all_groups(store: ArtifactStore) -> None:
    """Orders found for the first cut hold for the next: they are those of the whole net."""
    model = graphs.conv_chain((3, 16, 16, 8))
    evidence = evidence_of(model, store)
    alone, after = Editor(opened(model)), Editor(opened(model))
    transform = transform_of("channels_greedy")[1]
    one = transform.apply(alone, Action.of("channels_greedy", "conv2", keep=8), evidence)
    transform.apply(after, Action.of("channels_greedy", "conv1", keep=8), evidence)
    two = transform.apply(after, Action.of("channels_greedy", "conv2", keep=8), evidence)
    assert one == two


def test_moments_are_those_of_all_samples() -> None:
    """Sums over samples and places, products included; wide axes keep squares only."""
    draw = default_rng(0)
    samples = [draw.normal(size=(2, 5, 3, 4)).astype(np.float32) for _ in range(30)]
    found = Moments.empty(5, products=True)
    for sample in samples:
        found.add(sample, 1)
    found.settle()
    rows = np.concatenate([np.moveaxis(s, 1, -1).reshape(-1, 5) for s in samples]).astype(float)
    assert found.count == len(rows)
    assert np.allclose(found.total, rows.sum(axis=0), atol=1e-4)
    assert np.allclose(found.square, (rows**2).sum(axis=0), atol=1e-4)
    assert found.products is not None
    assert np.allclose(found.products, rows.T @ rows, atol=1e-3)
    assert Moments.empty(4000, products=True).products is None


def test_a_search_is_offered_one_criterion(tmp_path: Path) -> None:
    """Widths of a group are alternatives of one choice; what is there to compare is left out."""
    model = graphs.conv_chain((3, 32, 24, 8))
    feeds = random_feeds(model, 4)
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=evidence_of(model, ArtifactStore(tmp_path), feeds),
        opset_ceiling=17,
        feed=feeds[0],
        data_digest="sha256:data",
    )
    space = GraphSpace(workshop, narrow_offer(8))
    (first, _) = [c for c in space.choices if c.family == "prune" and c.name != "prune:conv3"]
    assert first.name == "prune:conv1"
    assert first.labels == ("off", "24", "16", "8")
    assert {
        a.transform for c in space.choices if c.family == "prune" for x in c.alternatives for a in x
    } == {"channels_greedy"}


def test_strata_are_asked_for_one_by_one(store: ArtifactStore) -> None:
    """`keep` names every stratum; a residual half is left whole by what is offered."""
    model = NETS["c2f"]()
    graph = opened(model)
    transform = transform_of("channels_greedy")[1]
    offered = [a.get("keep") for a in transform.sites(graph, narrow_offer(2)) if a.site == "cv1"]
    assert offered == ["6/8", "4/8", "2/8"]
    evidence = evidence_of(model, store, random_feeds(model, 3))
    for word in ("8/8", "4", "0/8", "x/8"):
        made = transform.apply(
            Editor(graph.clone()), Action.of("channels_greedy", "cv1", keep=word), evidence
        )
        assert isinstance(made, Rejection)
    assert Dependencies(graph).group("cv1") is not None
