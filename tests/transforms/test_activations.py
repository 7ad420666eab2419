"""Activations as numbers show them, however they are spelled; smooth ones become Relu."""

import math
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import NoEvidence, examine, offer, opened
from edgeopt.transforms.activations import POINTS, ending_at, numbers, starting_at
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.choices import grouped
from edgeopt.transforms.prune.relu_activation import PLUGIN
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.repair.least_squares import PLUGIN as SOLVE
from tests.transforms.spelled import (
    Spelled,
    gelu,
    gelu_by_tanh,
    hard_swish,
    mish,
    number,
    spelled_hard_swish,
    swish,
)

X, Y = ("x", "float32", (2, 3, 8, 8)), ("y", "float32", (2, 4, 8, 8))


def t(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """At the points."""
    return function(POINTS)


ERF = np.vectorize(math.erf)
SMOOTH: dict[Spelled, np.ndarray] = {
    hard_swish: t(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    spelled_hard_swish: t(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    swish: t(lambda x: x / (1 + np.exp(-x))),
    gelu: t(lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2),
    gelu_by_tanh: t(lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2),
    mish: t(lambda x: x * np.tanh(np.log1p(np.exp(x)))),
}


def net(spelled: Spelled) -> onnx.ModelProto:
    """Two convolutions, each with the activation, and a third."""
    b = Builder(3)
    first = spelled(b, b.conv("x", "a", (3, 8)), "a_f")
    b.conv(spelled(b, b.conv(first, "b", (8, 8)), "b_f"), "y", (8, 4))
    return b.model([X], [Y], opset=18)


@pytest.mark.parametrize("spelled", SMOOTH)
def test_a_function_is_what_its_numbers_say(spelled: Spelled) -> None:
    """From its end and from its start, the shortest that bends the right way."""
    graph = opened(net(spelled))
    values = {value.name: value for node in graph.graph for value in node.outputs}
    for found in (*ending_at(values["a_f"]), *starting_at(values["a"])):
        made = numbers(graph, found)
        if found.result is values["a_f"] and found.source is values["a"]:
            assert made is not None
            np.testing.assert_allclose(made, SMOOTH[spelled], atol=2e-3)
            break
    else:
        pytest.fail("not found")


@pytest.mark.parametrize("spelled", SMOOTH)
def test_smooth_activations_become_relu(spelled: Spelled) -> None:
    """At both places, and the net then computes what one with Relu there does."""
    applied = examine("relu_activation", net(spelled))
    assert [one.action.site for one in applied] == ["a_f", "b_f"]
    b = Builder(3)
    first = b.node("Relu", [b.conv("x", "a", (3, 8))], "a_f")
    b.conv(b.node("Relu", [b.conv(first, "b", (8, 8))], "b_f"), "y", (8, 4))
    plain = b.model([X], [Y], opset=18)
    editor = Editor(opened(net(spelled)))
    for one in applied:
        assert isinstance(PLUGIN.apply(editor, one.action, NoEvidence()), Action)
    made, wanted = Session(to_bytes(editor.model)), Session(plain.SerializeToString())
    for feed in random_feeds(plain, 2):
        np.testing.assert_allclose(made.run(feed)["y"], wanted.run(feed)["y"], atol=1e-5)


def _others() -> onnx.ModelProto:
    b = Builder(4)
    b.conv("x", "a", (3, 8))
    b.node("Relu", ["a"], "relu")
    b.node("Clip", ["a", number(b, 0.0), number(b, 6.0)], "clip")
    b.node("Sigmoid", ["a"], "sigmoid")
    b.node("Tanh", ["a"], "tanh")
    b.node("LeakyRelu", ["a"], "leaky", alpha=0.1)
    b.node("Mul", ["a", b.weight("w", 1, 8, 1, 1)], "scaled")
    b.node("Mul", ["a", b.node("HardSigmoid", ["sigmoid"], "hs")], "gated")
    swish(b, "a", "watched")
    b.node("Add", ["watched_s", "watched"], "sum")
    names = ("relu", "clip", "tanh", "leaky", "scaled", "gated", "sum")
    shape = (2, 8, 8, 8)
    return b.model([X], [(name, "float32", shape) for name in names])


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        ("relu", "not near to Relu"),
        ("clip", "not near to Relu"),
        ("sigmoid", "not near to Relu"),
        ("tanh", "not near to Relu"),
        ("scaled", "not near to Relu"),
        ("gated", "not near to Relu"),
        ("leaky", "not near to Relu"),
        ("watched", "something else reads its parts"),
        ("nowhere", "no node of the main graph"),
    ],
)
def test_what_is_no_smooth_activation_stays(site: str, reason: str) -> None:
    """The refusal says why, and the graph is as it was."""
    editor = Editor(opened(_others()))
    before = to_bytes(editor.model)
    assert not [a for a in PLUGIN.sites(editor.model, offer()) if a.site == site]
    made = PLUGIN.apply(editor, Action.of("relu_activation", site), NoEvidence())
    assert isinstance(made, Rejection)
    assert reason in made.reason
    assert to_bytes(editor.model) == before


def test_least_squares_make_up_for_a_part(store: ArtifactStore) -> None:
    """What reads the Relu is solved for what the smooth activation made it compute."""
    model = net(hard_swish)
    evidence = evidence_of(model, store, random_feeds(model, 64))
    evidence.remember_float(opened(model))
    editor = Editor(opened(model))
    for action in PLUGIN.sites(editor.model, offer()):
        PLUGIN.apply(editor, action, evidence)
    fresh = random_feeds(model, 8, seed=9)
    before = output_error(opened(model), editor.model, fresh)
    solved = SOLVE.apply(editor, Action.of("least_squares", "*", samples=64), evidence)
    assert isinstance(solved, Action)
    assert output_error(opened(model), editor.model, fresh) < 0.7 * before


def test_neighbours_are_one_choice() -> None:
    """Few choices however many activations; all of them, in order, each once."""
    for count in (1, 3, 4, 11, 28):
        actions = [Action.of("relu_activation", f"v{index}") for index in range(count)]
        other = Action.of("drop_layer", "v0")
        choices = grouped("prune", [other, *actions])
        assert choices[0].alternatives == ((), (other,))
        runs = [choice.alternatives[1] for choice in choices[1:]]
        assert len(runs) == min(count, PLUGIN.parts)
        assert [action for run in runs for action in run] == actions
        assert max(map(len, runs)) - min(map(len, runs)) <= 1
        assert len({choice.name for choice in choices}) == len(choices)
