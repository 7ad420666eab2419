"""A Relu that is moved and scaled to be near to the activation whose place it takes."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import observe
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.prunable import NETS
from edgeopt.testing.prune_groups import TOLERANCE, difference
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.activations import POINTS
from edgeopt.transforms.base import Evidence
from edgeopt.transforms.prune._matched_relu import matched
from edgeopt.transforms.prune.channels_l1 import PLUGIN as CUT
from edgeopt.transforms.prune.relu_activation import PLUGIN
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.repair.least_squares import PLUGIN as SOLVE
from edgeopt.transforms.restated import as_stated, held
from tests.transforms.spelled import Spelled, gelu, hard_swish, swish

HARD_SWISH = POINTS * np.clip(POINTS + 3, 0, 6) / 6


def net(spelled: Spelled, kind: str = "Conv") -> onnx.ModelProto:
    """Three layers with activations in between."""
    b = Builder(3)
    if kind == "Conv":
        first = spelled(b, b.conv("x", "a", (3, 16)), "a_f")
        second = spelled(b, b.conv(first, "b", (16, 16), group=16), "b_f")
        b.conv(second, "y", (16, 4), kernel=1)
        return b.model([("x", "float32", (2, 3, 8, 8))], [("y", "float32", (2, 4, 8, 8))], opset=18)
    first = spelled(b, b.node("Gemm", ["x", b.weight("w", 6, 16), b.weight("v", 16)], "a"), "a_f")
    product = b.node("MatMul", [first, b.weight("u", 16, 16)], "m")
    second = spelled(b, b.node("Add", [product, b.weight("t", 16)], "b"), "b_f")
    b.node("Gemm", [second, b.weight("s", 16, 4)], "y")
    return b.model([("x", "float32", (8, 6))], [("y", "float32", (8, 4))], opset=18)


def replaced(model: onnx.ModelProto, evidence: Evidence) -> tuple[ir.Model, list[Action]]:
    """With Relu everywhere, and the actions as they were done."""
    editor = Editor(opened(model))
    done: list[Action] = []
    for action in PLUGIN.sites(editor.model, offer()):
        made = PLUGIN.apply(editor, action, evidence)
        assert isinstance(made, Action)
        done.append(made)
    return editor.model, done


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.2), (0.3, 1.0), (-1.0, 1.5), (4.0, 1.0)])
def test_it_is_nearer_than_a_plain_one(mean: float, deviation: float) -> None:
    """Over normal values; near 0 by far, where a hard swish is almost a straight line."""
    found = matched(HARD_SWISH, np.array([mean]), np.array([deviation]), constant=True)
    x = np.random.default_rng(0).normal(mean, deviation, 20_000)
    wanted = x * np.clip(x + 3, 0, 6) / 6
    made = found.factor * np.maximum(x + found.shift, 0) + found.constant
    plain = ((np.maximum(x, 0) - wanted) ** 2).mean()
    assert ((made - wanted) ** 2).mean() < (0.05 if deviation < 0.5 else 0.7) * plain


def test_without_a_constant_the_factor_makes_up_for_what_it_can() -> None:
    """It is nearer than a plain one, and than the same without its constant."""
    mean, deviation = np.zeros(1), np.full(1, 0.5)
    found = matched(HARD_SWISH, mean, deviation, constant=False)
    assert found.constant == 0.0
    x = np.random.default_rng(0).normal(0, 0.5, 20_000)
    wanted = x * np.clip(x + 3, 0, 6) / 6
    made = found.factor * np.maximum(x + found.shift, 0)
    assert ((made - wanted) ** 2).mean() < 0.9 * ((np.maximum(x, 0) - wanted) ** 2).mean()


def test_channels_are_each_their_own() -> None:
    """Of several at once what each gives alone; one that never varies is no fault."""
    mean, deviation = np.array([0.0, 1.0, -2.0, 0.5]), np.array([0.2, 1.0, 3.0, 0.0])
    whole = matched(HARD_SWISH, mean, deviation, constant=True)
    for index in range(4):
        alone = matched(HARD_SWISH, mean[[index]], deviation[[index]], constant=True)
        for name in ("factor", "shift", "constant"):
            one = getattr(whole, name)
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one[index], getattr(alone, name)[0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
@pytest.mark.parametrize("spelled", [hard_swish, gelu, swish])
def test_a_net_is_nearer_with_it(spelled: Spelled, kind: str, store: ArtifactStore) -> None:
    """Before anything is solved anew; and the names that were there are there."""
    model = net(spelled, kind)
    evidence = evidence_of(model, store, random_feeds(model, 32))
    made, done = replaced(model, evidence)
    plain, _ = replaced(model, NoEvidence())
    fresh = random_feeds(model, 8, seed=5)
    given = opened(model)
    assert output_error(given, made, fresh) < 0.8 * output_error(given, plain, fresh)
    assert {"a", "a_f", "b", "b_f"} <= {v.name for node in made.graph for v in node.outputs}
    assert set(held(made.graph)) == {"a", "b"}
    assert all(action.artifacts for action in done)


def test_a_replay_needs_no_samples(store: ArtifactStore) -> None:
    """The same numbers from what was stored."""
    model = net(hard_swish)
    evidence = evidence_of(model, store, random_feeds(model, 32))
    made, done = replaced(model, evidence)
    editor = Editor(opened(model))
    bare = evidence_of(model, store, [])
    for action in done:
        assert PLUGIN.apply(editor, action, bare) == action
    assert difference(made, editor.model, random_feeds(model, 2)) == 0.0


@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
def test_the_given_graph_is_stated_in_the_same_way(kind: str, store: ArtifactStore) -> None:
    """It makes what it made, and its values of those names are a · (x + s)."""
    model = net(hard_swish, kind)
    made, _ = replaced(model, evidence_of(model, store, random_feeds(model, 32)))
    given, feeds = opened(model), random_feeds(model, 2, seed=4)
    stated = as_stated(given, made)
    assert difference(given, stated, feeds) <= TOLERANCE
    names = list(held(made.graph))
    before, after = (next(iter(observe(graph, names, feeds[:1]))) for graph in (given, stated))
    shape: Any = (1, -1, 1, 1) if kind == "Conv" else (-1,)
    for name, how in held(made.graph).items():
        wanted = how.factor.reshape(shape) * (before[name] + how.shift.reshape(shape))
        np.testing.assert_allclose(after[name], wanted, atol=1e-4)
    assert as_stated(given, opened(model)) is given


@pytest.mark.parametrize("cut", [False, True])
def test_least_squares_know_what_was_restated(cut: bool, store: ArtifactStore) -> None:
    """They come nearer, with channels of a restated layer removed as well."""
    model = net(hard_swish)
    evidence = evidence_of(model, store, random_feeds(model, 64))
    evidence.remember_float(opened(model))
    made, _ = replaced(model, evidence)
    editor = Editor(made)
    if cut:
        assert isinstance(
            CUT.apply(editor, Action.of("channels_l1", "a", keep="12"), evidence), Action
        )
    fresh = random_feeds(model, 8, seed=9)
    before = output_error(opened(model), editor.model, fresh)
    asked = Action.of("least_squares", "*", samples=64)
    assert isinstance(SOLVE.apply(editor, asked, evidence), Action)
    assert output_error(opened(model), editor.model, fresh) < 0.9 * before


@pytest.mark.parametrize("watched", [False, True])
def test_what_a_layer_makes_for_others_too_stays_as_it_is(
    watched: bool, store: ArtifactStore
) -> None:
    """A residual reads it, or it is an output: a plain Relu is all that can be had."""
    b = Builder(2)
    hard_swish(b, b.conv("x", "a", (8, 8)), "f")
    b.node("Add", ["x" if watched else "a", b.conv("f", "c", (8, 8))], "y")
    shape = ("float32", (1, 8, 6, 6))
    outputs = [("y", *shape), *([("a", *shape)] if watched else [])]
    model = b.model([("x", *shape)], outputs, opset=18)
    made, (action,) = replaced(model, evidence_of(model, store, random_feeds(model, 16)))
    assert not action.artifacts
    assert not held(made.graph)


@pytest.mark.parametrize("net_name", ["mobilenet", "c2f", "vit_block", "shufflenet"])
def test_real_structures_keep_their_outputs_shape(net_name: str, store: ArtifactStore) -> None:
    """Wherever it applies in them, the checker is content and all numbers are finite."""
    model = NETS[net_name]()
    feeds = random_feeds(model, 8)
    made, _ = replaced(model, evidence_of(model, store, feeds))
    names = [value.name or "" for value in made.graph.outputs]
    for found in observe(made, names, feeds[:2]):
        assert all(np.isfinite(array).all() for array in found.values())
