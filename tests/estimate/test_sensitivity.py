"""Damage: the shortcut says what running the whole says; kept by digest; worst output counts."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.estimate.partial import behind
from edgeopt.estimate.sensitivity import WORST, Sensitivity, damage_of, decibels
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session, observe
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import as_graph, conv_chain, if_model, random_feeds


def changed(base: ir.Model, index: int) -> ir.Model:
    """A clone with the weight of its n-th convolution rounded coarsely."""
    made = base.clone()
    editor = Editor(made)
    node = [node for node in made.graph if node.op_type == "Conv"][index]
    weight = node.inputs[1].const_value.numpy()
    coarse = editor.initializer(f"{node.inputs[1].name}_coarse", np.round(weight * 4) / 4)
    editor.set_input(node, 1, coarse)
    return made


@pytest.fixture
def base() -> ir.Model:
    """A few convolutions."""
    return as_graph(conv_chain())


def feeds_of(base: ir.Model):
    return random_feeds(ir.to_proto(base), 3)


def test_only_what_changed_and_what_follows_is_run(base: ir.Model):
    """The last convolution's part is smaller than the first one's; both give the same outputs."""
    feeds = feeds_of(base)
    names = [v.name for node in base.graph for v in node.outputs]
    known = next(observe(base, [*names, *(v.name for v in base.graph.inputs)], feeds[:1]))
    sizes = []
    for index in (0, -1):
        graph = changed(base, index)
        part = behind(base, graph, known)
        assert part is not None
        sizes.append(len(part.model.graph.node))
        made = Session(part.model.SerializeToString()).run({n: known[n] for n in part.inputs})
        whole = Session(to_bytes(graph)).run(feeds[0])
        for name in part.outputs:
            assert made[name] == pytest.approx(whole[name], rel=1e-5, abs=1e-6)
    assert sizes[1] < sizes[0]


def test_the_shortcut_says_what_the_whole_says(base: ir.Model):
    """Damage through the part equals damage of the whole graph."""
    feeds = feeds_of(base)
    graph = changed(base, 0)
    found = Sensitivity(base, feeds, key="a").damage("first", graph)
    whole = damage_of(
        [Session(to_bytes(base)).run(f) for f in feeds],
        [Session(to_bytes(graph)).run(f) for f in feeds],
    )
    assert found == pytest.approx(whole, rel=1e-3)
    assert found > 0


def test_nothing_changed_is_no_damage(base: ir.Model):
    """A clone is the graph itself."""
    assert Sensitivity(base, feeds_of(base), key="a").damage("none", base.clone()) == 0


def test_graphs_with_bodies_are_run_whole():
    """Values that a body captures cannot be followed by name here."""
    base = as_graph(if_model())
    assert behind(base, base.clone(), {}) is None


def test_what_was_found_is_kept_by_key(base: ir.Model, tmp_path: Path):
    """Another run of the same key reads it; another key does not, nor a damaged file."""
    first = Sensitivity(base, feeds_of(base), key="a", folder=tmp_path)
    value = first.damage("first", changed(base, 0))
    first.save()
    assert Sensitivity(base, (), key="a", folder=tmp_path).known("first") == value
    assert Sensitivity(base, (), key="b", folder=tmp_path).known("first") is None
    for file in tmp_path.iterdir():
        file.write_text("{")
    assert Sensitivity(base, (), key="a", folder=tmp_path).known("first") is None


def test_a_graph_that_does_not_run_is_the_worst(base: ir.Model):
    """A failure is no exception here: it ranks last."""
    broken = base.clone()
    next(node for node in broken.graph if node.op_type == "Conv").op_type = "NoSuchOperator"
    assert Sensitivity(base, feeds_of(base), key="a").damage("broken", broken) == WORST


def test_the_worst_output_counts():
    """Known noise gives known damage; integers count the share that differs; infinities most."""
    true = {"a": np.array([1.0, -1.0, 1.0, -1.0]), "b": np.array([1, 2, 3, 4])}
    near = {"a": true["a"] + 0.1, "b": np.array([1, 2, 3, 4])}
    assert damage_of([true], [near]) == pytest.approx(0.01)
    assert decibels(0.01) == pytest.approx(20)
    assert damage_of([true], [{**near, "b": np.array([1, 2, 3, 5])}]) == pytest.approx(0.25)
    assert damage_of([true], [{**near, "a": np.array([np.inf, 0, 0, 0])}]) == WORST
    assert decibels(0) == float("inf")
