"""The strategy for runtime settings: what it asks first, what it leaves, and why."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.protocols import Strategy
from edgeopt.core.trial import Trial
from edgeopt.plugins import STRATEGIES
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

USER, FAST, SLOW = RuntimeSettings(), RuntimeSettings(threads=2), RuntimeSettings(threads=9)


class Tuned(ToySpace):
    """A toy space under settings of the test's own."""

    @property
    def runtimes(self) -> tuple[RuntimeSettings, ...]:
        return (USER, SLOW, FAST)


def make(space: ToySpace) -> Strategy:
    return STRATEGIES.load("runtime")(space, seed=0, objectives=OBJECTIVES)


def measured(space: ToySpace, candidates: Sequence[Candidate], factor: Callable) -> list[Trial]:
    """Trials without noise, whose latency the settings multiply; None is a failure."""
    found = []
    for number, trial in enumerate(ToyDevice(space, noise=0.0, failing=0.0).measure(candidates)):
        times = factor(trial.candidate.runtime)
        outcome: Measurement | Failure = Failure(stage="load", reason="no")
        if times is not None:
            assert isinstance(trial.outcome, Measurement)
            latency = trial.outcome.values["latency"]
            value = Value(value=latency.value * times, unit="s")
            outcome = replace(trial.outcome, values={**trial.outcome.values, "latency": value})
        found.append(replace(trial, number=number, outcome=outcome))
    return found


def by_threads(runtime: RuntimeSettings) -> float:
    return {1: 1.0, 2: 0.6, 9: 1.5}[runtime.threads]


def good_recipes(space: ToySpace) -> list[Candidate]:
    return [candidate for _, candidate in space.standard()]


def test_the_given_model_comes_first() -> None:
    """Under every alternative, in the space's order, before anything was told."""
    space = Tuned()
    asked = make(space).ask(10)
    assert [(c.recipe, c.runtime) for c in asked] == [(space.empty(), SLOW), (space.empty(), FAST)]


def test_what_gained_goes_first() -> None:
    """The best recipe is tried under the settings that gained on the given model."""
    space = Tuned()
    strategy = make(space)
    strategy.tell(measured(space, good_recipes(space), by_threads))
    strategy.tell(measured(space, strategy.ask(2), by_threads))
    first, second = strategy.ask(2)
    assert (first.runtime, second.runtime) == (FAST, SLOW)
    assert first.recipe == second.recipe
    assert first.recipe.actions


def test_what_lost_twice_is_left() -> None:
    """Settings that cost time on two models are not tried on a third."""
    space = Tuned()
    strategy = make(space)
    strategy.tell(measured(space, good_recipes(space), by_threads))
    asked: list[Candidate] = []
    while batch := strategy.ask(1):
        strategy.tell(measured(space, batch, by_threads))
        asked += batch
    fast, slow = (sum(c.runtime == runtime for c in asked) for runtime in (FAST, SLOW))
    recipes: set[Recipe] = {c.recipe for c in asked}
    assert slow == 2
    assert fast == len(recipes) == 3


def test_what_failed_is_left() -> None:
    """A provider that refuses the given model under some settings is not asked again."""
    space = Tuned()
    strategy = make(space)

    def refused(runtime: RuntimeSettings) -> float | None:
        return None if runtime == SLOW else 1.0

    strategy.tell(measured(space, good_recipes(space), refused))
    strategy.tell(measured(space, strategy.ask(2), refused))
    assert [c.runtime for c in strategy.ask(10)] == [FAST, FAST]


def test_a_few_at_a_time() -> None:
    """However many are wanted: what the first show decides on the next."""
    space = Tuned()
    strategy = make(space)
    strategy.tell(measured(space, good_recipes(space), by_threads))
    assert len(strategy.ask(100)) == 4


def test_nothing_to_choose() -> None:
    """A device that allows the user's settings only ends it at once."""

    class Fixed(ToySpace):
        @property
        def runtimes(self) -> tuple[RuntimeSettings, ...]:
            return (USER,)

    space = Fixed()
    strategy = make(space)
    strategy.tell(measured(space, good_recipes(space), by_threads))
    assert not strategy.ask(8)
