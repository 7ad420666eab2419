"""The strategy that trains: which candidates it picks, and what it learns from how they end."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Samples
from edgeopt.core.trial import Trial
from edgeopt.search.trained import Trained
from edgeopt.testing.toy_space import ToyDevice, ToySpace

BOUNDED = (
    Objective(metric="latency"),
    Objective(metric="accuracy", direction="max", bound=0.89),
)


class Trainer:
    """Trains what was cut; what is named `hopeless` is not trained."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, recipe: Recipe) -> Iterator[tuple[str, Candidate]]:
        site = recipe.actions[0].site
        self.asked.append(site)
        if site != "hopeless":
            action = Action.of("distil", "*", version=2, samples=4, seconds=10.0)
            made = replace(recipe, actions=(*recipe.actions, action))
            yield "distil", Candidate(recipe=made)


def _trial(site: str, latency: float, accuracy: float, transform: str = "channels_greedy") -> Trial:
    space = ToySpace()
    actions = (Action.of(transform, site, keep=1),) if site else ()
    candidate = Candidate(recipe=replace(space.empty(), actions=actions))
    return _measured(candidate, latency, accuracy)


def _measured(candidate: Candidate, latency: float, accuracy: float) -> Trial:
    space = ToySpace()
    given = Candidate(recipe=space.empty())
    (trial,) = ToyDevice(space, noise=0.0, failing=0.0).measure([given])
    assert isinstance(trial.outcome, Measurement)
    values = {
        "latency": Value(value=latency, unit="s"),
        "accuracy": Value(value=accuracy, unit=""),
    }
    outcome = replace(trial.outcome, values=values)
    return replace(trial, candidate=candidate, outcome=outcome)


def _make(trainer: Trainer | None = None) -> Trained:
    return Trained(trainer or Trainer(), BOUNDED)


def _sites(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.recipe.actions[0].site for candidate in candidates]


BASE = _trial("", 1.0, 0.9)


def test_the_fastest_in_reach_is_trained() -> None:
    """Not what is slower than something that keeps the bound, nor what lost everything."""
    strategy = _make()
    strategy.tell([BASE, _trial("kept", 0.8, 0.895), _trial("slow", 0.9, 0.88)])
    strategy.tell([_trial("near", 0.6, 0.87), _trial("fast", 0.5, 0.83), _trial("lost", 0.2, 0.1)])
    assert _sites(strategy.ask(10)) == ["fast"]


def test_reach_follows_what_trainings_kept() -> None:
    """Less far after one that lost too much, twice as far after one that did not."""
    for accuracy, following in ((0.7, "near"), (0.9, "far")):
        strategy = _make()
        strategy.tell([BASE, _trial("near", 0.6, 0.88), _trial("mid", 0.5, 0.83)])
        (asked,) = strategy.ask(10)
        strategy.tell([_measured(asked, 0.45, accuracy), _trial("far", 0.3, 0.75)])
        assert _sites(strategy.ask(10)) == [following], accuracy


def test_after_a_failure_a_slower_net_that_lost_as_much_is_trained() -> None:
    """It has more to come back with; one as fast has not, and after a second failure neither."""
    strategy = _make()
    nets = {"bold": (0.2, 0.8), "as bold": (0.21, 0.805), "wider": (0.25, 0.79)}
    strategy.tell([BASE, *(_trial(site, *seen) for site, seen in nets.items())])
    found: list[str] = []
    while asked := strategy.ask(10):
        found += _sites(asked)
        strategy.tell([_measured(each, 0.3, 0.85) for each in asked])
        strategy.tell([_trial("widest", 0.35, 0.795)])
    assert found == ["bold", "wider"]


def test_three_trainings_at_most() -> None:
    """What cannot be trained does not count."""
    trainer = Trainer()
    strategy = _make(trainer)
    strategy.tell([BASE, _trial("hopeless", 0.1, 0.88)])
    strategy.tell([_trial(f"s{index}", 0.5 - index / 100, 0.88) for index in range(6)])
    found: list[str] = []
    while asked := strategy.ask(10):
        found += _sites(asked)
        strategy.tell([_measured(candidate, 0.6, 0.9) for candidate in asked])
    assert found == ["s5", "s4", "s3"]
    assert trainer.asked[0] == "hopeless"


def test_quantized_nets_are_trained_and_exact_ones_are_not() -> None:
    """A scheme that loses a little too much is in reach; a rewrite loses nothing."""
    strategy = _make()
    strategy.tell([BASE, _trial("r", 0.5, 0.88, "hardswish"), _trial("q", 0.6, 0.88, "static_qdq")])
    assert _sites(strategy.ask(10)) == ["q"]


def test_where_integers_gain_a_slower_net_in_float_promises_more() -> None:
    """It is tried in integers with the weights that it was trained to."""
    for transform, following in (("static_qdq", ["half"]), ("hardswish", [])):
        strategy = _make()
        strategy.tell([BASE, _trial("kept", 0.48, 0.895, transform), _trial("half", 0.51, 0.8)])
        assert _sites(strategy.ask(10)) == following, transform


def test_after_a_training_of_integers_in_vain_no_other_scheme_is_trained() -> None:
    """Each took minutes to say so; what was pruned still is."""
    trainer = Trainer()
    strategy = _make(trainer)
    strategy.tell([BASE, _trial("hopeless", 0.3, 0.88, "static_qdq")])
    strategy.tell([_trial("q", 0.4, 0.88, "static_qdq"), _trial("half", 0.6, 0.88)])
    assert _sites(strategy.ask(10)) == ["half"]
    strategy.tell([_trial("other", 0.2, 0.88, "static_qdq")])
    assert strategy.ask(10) == ()
    assert trainer.asked == ["hopeless", "half"]


def test_without_a_baseline_nobody_knows_what_was_lost() -> None:
    """Then nothing is trained; nor where there is no room for it in integers too."""
    strategy = _make()
    strategy.tell([_trial("near", 0.5, 0.88)])
    assert strategy.ask(10) == ()
    strategy.tell([BASE])
    assert strategy.ask(1) == ()
    assert _sites(strategy.ask(2)) == ["near"]


def test_a_training_needs_time_beside_what_confirming_takes() -> None:
    """Where there is none it waits for nothing either."""
    spare_s = 100.0
    strategy = Trained(Trainer(), BOUNDED, price_s=60.0, spare_s=lambda: spare_s)
    strategy.tell([BASE, _trial("near", 0.6, 0.88), _trial("other", 0.65, 0.88)])
    assert _sites(strategy.ask(10)) == ["near"]
    assert strategy.waits
    spare_s = 50.0
    assert strategy.ask(10) == ()
    assert not strategy.waits


def test_what_is_hardly_faster_is_not_trained() -> None:
    """Minutes for a few percent are not spent, but what others find may be worth them."""
    strategy = _make()
    strategy.tell([BASE, _trial("kept", 0.6, 0.895), _trial("as fast", 0.59, 0.88)])
    assert strategy.ask(10) == ()
    assert strategy.waits


def test_what_was_timed_beside_the_given_model_counts_by_its_ratio() -> None:
    """A busy machine doubled the time of the faster one, and that of the given model beside it."""
    strategy = _make()
    slow, fast = _trial("slow", 0.6, 0.88), _trial("fast", 0.9, 0.88)
    strategy.tell([BASE, _timed(slow, 0.6, 1.0), _timed(fast, 0.9, 2.0)])
    assert _sites(strategy.ask(10)) == ["fast"]


def _timed(trial: Trial, latency: float, given: float) -> Trial:
    assert isinstance(trial.outcome, Measurement)
    blocks = ((latency,) * 8,) * 4
    samples = Samples(unit="s", blocks=blocks, baseline=((given,) * 8,) * 4, rounds=(0, 0, 1, 1))
    value = replace(trial.outcome.values["latency"], samples=samples)
    return replace(
        trial, outcome=replace(trial.outcome, values={**trial.outcome.values, "latency": value})
    )
