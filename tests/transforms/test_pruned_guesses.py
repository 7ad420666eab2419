"""First guesses with something pruned, and repairs of pruning in a space."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgeopt.core.action import Action, Choice
from edgeopt.graph.read import read_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import offer
from edgeopt.transforms.choices import in_order
from edgeopt.transforms.guesses import HALF_WIDTH, HALF_WITH_RELU, NARROW, first_guesses
from edgeopt.transforms.repair._torch import is_installed
from edgeopt.transforms.replay import ActionRejected, Workshop
from edgeopt.transforms.space import GraphSpace


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A chain that can be pruned, with data."""
    model = graphs.conv_chain((3, 64, 32, 8))
    return Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=evidence_of(model, ArtifactStore(tmp_path), graphs.random_feeds(model, 48)),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
        data_digest="sha256:data",
    )


def _widths(name: str, *kept: int) -> Choice:
    actions = tuple((Action.of("channels_greedy", name, keep=keep),) for keep in kept)
    labels = ("off", *map(str, kept))
    return Choice(name=f"prune:{name}", family="prune", labels=labels, alternatives=((), *actions))


def test_widths_are_alike_whatever_each_group_offers() -> None:
    """A quarter is the first alternative of each; a half is the one nearest to two thirds of it."""
    choices = [_widths("a", 48, 40, 32, 16), _widths("b", 16), _widths("c", 24, 16)]
    found = first_guesses(choices, (), None)
    assert found[NARROW] == [1, 1, 1]
    assert found[HALF_WIDTH] == [3, 1, 2]


def test_where_nets_are_trained_the_narrower_one_is_tried_first() -> None:
    """It is what a training can bring back; least squares alone bring back the other one."""
    choices = [_widths("a", 48, 40, 32, 16)]
    assert list(first_guesses(choices, (), None)) == [NARROW, HALF_WIDTH]
    assert list(first_guesses(choices, (), None, trains=True)) == [HALF_WIDTH, NARROW]


def test_where_nets_are_trained_smooth_activations_go_first() -> None:
    """With every one a Relu; least squares alone would not bring it back."""
    smooth = Choice(
        name="prune:relu_activation/1",
        family="prune",
        labels=("off", "relu_activation"),
        alternatives=((), (Action.of("relu_activation", "s"),)),
    )
    choices = [smooth, _widths("a", 48, 40, 32, 16)]
    found = first_guesses(choices, (), None, trains=True)
    assert list(found) == [HALF_WITH_RELU, HALF_WIDTH, NARROW]
    assert (found[HALF_WITH_RELU], found[HALF_WIDTH]) == ([1, 3], [0, 3])
    assert list(first_guesses(choices, (), None)) == [NARROW, HALF_WIDTH]


def test_pruned_guesses_are_repaired(workshop: Workshop) -> None:
    """Among the guesses are narrow nets, each with least squares behind what was removed."""
    space = GraphSpace(workshop, offer())
    mends = {choice.name for choice in space.choices if choice.mends}
    assert mends == {"repair:least_squares"}
    found = dict(space.guesses())
    for name in (NARROW, HALF_WIDTH):
        names = [action.transform for action in found[name].recipe.actions]
        assert names.index("channels_greedy") < names.index("least_squares")
    assert not any("distil" in name for name in found)


def test_least_squares_alone_is_no_step(workshop: Workshop) -> None:
    """It is legal once something was pruned, and not before or after quantization."""
    space = GraphSpace(workshop, offer())
    start = space.empty()
    assert "least_squares" not in {action.transform for action in space.legal(start)}
    cut = next(a for a in space.legal(start) if a.transform == "channels_greedy")
    pruned = space.then(start, cut)
    assert not isinstance(pruned, str)
    assert "least_squares" in {action.transform for action in space.legal(pruned)}
    with pytest.raises(ActionRejected, match="nothing was pruned"):
        workshop.build(workshop.recipe([Action.of("least_squares", "*", samples=8)]))


@pytest.mark.skipif(not is_installed(), reason="needs torch: pip install 'edgeopt[rl]'")
def test_a_pruned_candidate_is_trained_when_it_is_asked_for(workshop: Workshop) -> None:
    """Never a choice or a guess; and with the weights that were trained it is tried in integers,
    which costs no second training.
    """
    space = GraphSpace(workshop, replace(offer(), distil_s=10.0))
    assert not any("distil" in choice.name for choice in space.choices)
    found = dict(space.guesses())
    assert not any("distil" in name for name in found)
    made = {name: c.recipe.actions for name, c in space.trained(found[HALF_WIDTH].recipe)}
    assert list(made) == ["distil", "distil+quantize"]
    floats, rounded = made.values()
    assert floats[-1].transform == "distil"
    assert floats[-1].get("seconds") == 10.0
    assert rounded[: len(floats)] == floats
    assert "static_qdq" in {action.transform for action in rounded[len(floats) :]}


def test_values_are_held_before_channels_go() -> None:
    """Their means are then those of the given model, and one pass over samples serves all."""
    cut, gate = Action.of("channels_greedy", "a", keep=1), Action.of("static_gate", "b")
    branch, quantized = Action.of("hold_branch", "c"), Action.of("static_qdq", "d")
    exact = [Action.of("hardswish", "y"), Action.of("fold_add", "x")]
    made = in_order([cut, gate, quantized, branch, *reversed(exact)], exact)
    assert made == [*exact, gate, branch, cut, quantized]
