"""`GraphEstimator` over a real space: what it predicts, learns, couples, and keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeopt.core.action import Action
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.estimates import DAMAGE, DROP, LATENCY, Estimator
from edgeopt.core.lowered import Layer, Lowered
from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Samples
from edgeopt.core.trial import Trial
from edgeopt.estimate.estimator import GraphEstimator, like
from edgeopt.graph.read import read_model
from edgeopt.plugins import STRATEGIES
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import offer
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace


def _net():
    b = graphs.Builder()
    b.node("Relu", [b.conv("x", "conv1", (3, 32))], "relu1")
    b.node("Relu", [b.conv("relu1", "conv2", (32, 16))], "relu2")
    b.node("Exp", [b.conv("relu2", "conv3", (16, 4), kernel=1)], "exp")
    b.node("GlobalAveragePool", ["exp"], "y")
    return b.model([("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 4, 1, 1))])


@pytest.fixture
def space(tmp_path: Path) -> GraphSpace:
    """Three convolutions in a row."""
    model = _net()
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=evidence_of(model, ArtifactStore(tmp_path)),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, offer())


def _with(space: GraphSpace, *families: str):
    return space.decode([int(c.family in {*EXACT, *families}) for c in space.choices])


def _trial(number: int, recipe, ratio: float, accuracy: float, **runtime) -> Trial:
    blocks = tuple((ratio * 1e-3,) * 3 for _ in range(4))
    samples = Samples(unit="s", blocks=blocks, baseline=((1e-3,) * 3,) * 4)
    values = {
        "latency": Value(value=ratio * 1e-3, unit="s", samples=samples),
        "accuracy": Value(value=accuracy, unit="1"),
    }
    return Trial(
        number=number,
        candidate=Candidate(recipe=recipe, runtime=RuntimeSettings(**runtime)),
        device="here",
        protocol="quick",
        strategy="test",
        outcome=Measurement(values=values),
    )


def test_the_baseline_changes_nothing(space: GraphSpace):
    """Neither latency nor outputs; and it is the interface that search is given."""
    estimator = GraphEstimator(space)
    assert isinstance(estimator, Estimator)
    found = estimator.predict(space.empty())
    assert found.mean(LATENCY) == pytest.approx(0)
    assert found.mean(DAMAGE) == 0
    assert found.mean(DROP) is None


def test_damage_is_the_sum_of_what_each_does_alone(space: GraphSpace):
    """Everything quantized is predicted to hurt more than any group; exact actions not at all."""
    estimator = GraphEstimator(space)
    assert estimator.predict(_with(space)).mean(DAMAGE) == 0
    everything = estimator.predict(_with(space, "quantize")).mean(DAMAGE)
    alone = [
        estimator.predict(estimator.alone(i, 1)).mean(DAMAGE)
        for i, choice in enumerate(space.choices)
        if choice.family == "quantize"
    ]
    assert all(each >= 0 for each in alone)
    assert max(alone) > 0
    assert everything == pytest.approx(sum(alone))


def test_neighbours_are_coupled(space: GraphSpace):
    """The convolutions that follow each other are, the first and the last are not."""
    names = [choice.name for choice in space.choices]
    found = {(names[i], names[j]) for i, j in GraphEstimator(space).coupled(space.choices)}
    assert ("quantize:conv1", "quantize:conv2") in found
    assert ("quantize:conv2", "quantize:conv3") in found
    assert ("quantize:conv1", "quantize:conv3") not in found


def test_it_learns_from_what_was_measured(space: GraphSpace):
    """A recipe measured slow is then predicted slow; the drop is predicted once one was seen.

    Told twice is told once; other runtime settings say nothing about the recipe.
    """
    estimator = GraphEstimator(space)
    slow = _with(space, "quantize")
    before = estimator.predict(slow).mean(LATENCY)
    trials = [_trial(0, space.empty(), 1.0, 0.9), _trial(1, slow, 1.6, 0.8)]
    estimator.learn([*trials, _trial(2, _with(space), 9.0, 0.9, threads=2)])
    estimator.learn(trials)
    after = estimator.predict(slow)
    assert after.mean(LATENCY) == pytest.approx(0.6, abs=0.1)
    assert after.mean(LATENCY) > before
    assert after.mean(DROP) == pytest.approx(0.1, abs=0.01)
    assert estimator.gain.count == 1


def _in_float(space: GraphSpace, trial: Trial) -> Trial:
    """What a device tells that has no integer convolutions."""
    graph = space.graph(trial.candidate.recipe)
    layers = tuple(
        Layer(name=n.name or "", operator=n.op_type, precision="float32", provider="")
        for n in graph.graph
        if n.op_type == "Conv"
    )
    assert trial.measurement is not None
    told = replace(trial.measurement, lowered=Lowered(layers=layers, asked=1, ran=0))
    return replace(trial, outcome=told)


def test_what_ran_in_float_is_foretold_to_gain_nothing_elsewhere_either(space: GraphSpace):
    """One placement of one group says it of the groups that nobody has measured."""
    estimator = GraphEstimator(space)
    places = [i for i, choice in enumerate(space.choices) if choice.family == "quantize"]
    first, *others = (estimator.alone(i, 1) for i in places if "conv" in space.choices[i].name)
    exact = estimator.predict(estimator.exact()).mean(LATENCY)
    before = [estimator.predict(recipe).mean(LATENCY) for recipe in others]
    assert min(before) < exact
    estimator.learn([_in_float(space, _trial(1, first, 1.1, 0.9))])
    start = estimator.predict(estimator.exact()).mean(LATENCY)
    assert all(estimator.predict(recipe).mean(LATENCY) >= start for recipe in others)


def test_a_resumed_search_foretells_the_same(space: GraphSpace):
    """Told at once or one after the other: earlier trials are counted by later placements."""
    recipes = [_with(space, "quantize"), _with(space)]
    estimators = [GraphEstimator(space), GraphEstimator(space)]
    one = _trial(1, recipes[0], 1.2, 0.9)
    place = next(i for i, choice in enumerate(space.choices) if choice.name.endswith("conv2"))
    two = _in_float(space, _trial(2, estimators[0].alone(place, 1), 1.1, 0.9))
    estimators[0].learn([one, two])
    for trial in (one, two):
        estimators[1].learn([trial])
        estimators[1].predict(recipes[0])
    for recipe in recipes:
        said = [estimator.predict(recipe).mean(LATENCY) for estimator in estimators]
        assert said[0] == pytest.approx(said[1], rel=1e-9)


def test_a_trial_that_cannot_be_built_any_more_teaches_nothing(space: GraphSpace):
    """A study that another version of edgeopt began holds recipes that do not apply now."""
    estimator = GraphEstimator(space)
    strange = replace(_with(space), actions=(Action.of("static_qdq", "no such group", version=2),))
    estimator.learn([_trial(0, space.empty(), 1.0, 0.9), _trial(1, strange, 0.5, 0.8)])
    assert estimator.predict(_with(space)).mean(LATENCY) is not None
    assert estimator.gain.count == 0


def test_noises_of_some_groups(space: GraphSpace):
    """What was asked for alone is what all damages say of it; without patience one is heard, and
    the others are taken from it."""
    places = [(i, 1) for i, c in enumerate(space.choices) if c.family == "quantize"]
    estimator = GraphEstimator(space)
    found = estimator.noises(places)
    starts = np.cumsum([0, *(len(c) for c in space.choices)])
    assert found == tuple(estimator.damages[starts[i] + k] for i, k in places)
    ticks = iter(range(10_000))
    hasty = GraphEstimator(space, patience_s=0.0, clock=lambda: float(next(ticks)))
    assert hasty.noises(places) == (found[0],) * len(places)


def test_patience_is_asked_before_each_question(space: GraphSpace):
    """What a search can spare is known then: none at first, enough later."""
    left = [0.0]
    ticks = iter(range(10_000))
    estimator = GraphEstimator(space, patience_s=lambda: left[0], clock=lambda: float(next(ticks)))
    places = [(i, 1) for i, c in enumerate(space.choices) if c.family == "quantize"]
    first = estimator.noises(places)
    left[0] = 10_000.0
    assert len(set(first)) == 1
    assert estimator.noises(places) == GraphEstimator(space).noises(places)


def test_damages_are_kept_between_runs(space: GraphSpace, tmp_path: Path):
    """A second estimator over the same model and data reads what the first one measured."""
    folder = tmp_path / "kept"
    first = GraphEstimator(space, folder=folder)
    damages = first.damages
    second = GraphEstimator(space, folder=folder)
    decisions = [a.text for c in space.choices if c.family == "quantize" for a in c.alternatives[1]]
    assert all(second.sensitivity.known(text) is not None for text in decisions)
    assert np.array_equal(second.damages, damages)


@pytest.mark.parametrize("name", ["ladder", "ilp"])
def test_strategies_search_a_real_space_with_it(space: GraphSpace, name: str):
    """Proposals are different recipes that build, and go on after results were told."""
    objectives = (
        Objective(metric="latency"),
        Objective(metric="accuracy", direction="max", bound=0.89),
    )
    strategy = STRATEGIES.load(name)(
        space, seed=0, objectives=objectives, estimator=GraphEstimator(space)
    )
    strategy.tell([_trial(0, space.empty(), 1.0, 0.9)])
    seen = [space.empty().digest]
    for turn in range(3):
        asked = strategy.ask(4)
        assert asked
        seen += [candidate.recipe.digest for candidate in asked]
        strategy.tell([_trial(4 * turn + i + 1, c.recipe, 0.8, 0.88) for i, c in enumerate(asked)])
    assert len(set(seen)) == len(seen)


def test_who_has_no_patience_takes_damages_from_like_alternatives(space: GraphSpace):
    """What is silent stays so, what was measured is kept, and nothing is missing."""
    ticks = iter(range(10_000))
    hasty = GraphEstimator(space, patience_s=3.0, clock=lambda: float(next(ticks)))
    found, true = hasty.damages, GraphEstimator(space).damages
    assert found.shape == true.shape
    places = [(c.family, k) for c in space.choices for k in range(len(c))]
    silent = np.array([k == 0 or f in {"rewrite", "fuse", "repair"} for f, k in places])
    assert not found[silent].any()
    assert np.isfinite(found).all()
    own = [text for c in space.choices for each in c.alternatives[1:] for text in _known(each)]
    measured = [text for text in own if hasty.sensitivity.known(text) is not None]
    assert 0 < len(measured) < len(own)
    assert np.count_nonzero(found == true) > np.count_nonzero(true == 0)


def _known(actions) -> list[str]:
    inexact = [a for a in actions if a.transform in {"static_qdq", "channels_greedy"}]
    return ["\n".join(action.text for action in actions)] if inexact else []


def test_like_alternatives():
    """The worst of the same choice, else the usual one so far down in the family, else loud."""
    families = ["prune", "prune", "quantize", "prune"]
    found = {(0, 1): 0.1, (0, 2): 0.3, (1, 1): 0.2, (3, 1): 0.6}
    assert like((0, 3), found, families) == 0.3
    assert like((1, 1), found, families) == 0.2
    del found[1, 1]
    assert like((1, 1), found, families) == pytest.approx(0.35)
    assert like((1, 2), found, families) == 0.3
    assert like((1, 5), found, families) == 0.3
    assert like((2, 1), found, families) == 1.0
    assert like((2, 0), found, families) == 0.0
