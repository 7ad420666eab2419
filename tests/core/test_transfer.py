"""What one device's measurements spare another."""

import numpy as np
from core_trials import BASELINE
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.front import front_of
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Samples
from edgeopt.core.transfer import agreement, rank_correlation, ratios, spared
from edgeopt.core.trial import Trial

OBJECTIVES = (Objective(metric="latency"), Objective(metric="size"))


def recipe(site: int) -> Recipe:
    """The baseline's for 0, else one action at a site of its own."""
    empty = Recipe(baseline=BASELINE)
    return empty.then(Action.of("rule", f"s{site}")) if site else empty


def trial(device: str, site: int, ratio: float, size: float = 10.0, threads: int = 1) -> Trial:
    """A candidate whose latency is that ratio of the given model's."""
    samples = Samples(unit="s", blocks=((ratio,), (ratio,)), baseline=((1.0,), (1.0,)))
    values = {
        "latency": Value(value=ratio, unit="s", samples=samples),
        "size": Value(value=size, unit="B"),
    }
    return Trial(
        number=site,
        candidate=Candidate(recipe=recipe(site), runtime=RuntimeSettings(threads=threads)),
        device=device,
        protocol="quick",
        strategy="s",
        outcome=Measurement(values=values),
    )


def fleet(there: list[float], here: list[float]) -> list[Trial]:
    """Candidates 0, 1, ... with these ratios on two devices; the first is the given model."""
    far = [trial("there", site, ratio) for site, ratio in enumerate(there)]
    return far + [trial("here", site, ratio) for site, ratio in enumerate(here)]


def why(trials: list[Trial], site: int) -> str:
    front = front_of(trials, OBJECTIVES, "here").members
    return spared(
        recipe(site).digest, device="here", trials=trials, objectives=OBJECTIVES, front=front
    )


THERE = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 1.1, 1.2, 1.3]
HERE = [1.0, 0.92, 0.83, 0.74, 0.62, 0.55, 1.08, 1.15, 1.3]


def test_what_is_dominated_there_is_spared_here_when_ranks_agree():
    """A slow candidate of equal size on a device of the same mind."""
    trials = [*fleet(THERE, HERE), trial("there", 20, 1.25)]
    assert "ranks agree" in why(trials, 20)


def test_what_could_be_on_the_front_is_measured():
    """Faster than all there: worth it."""
    assert not why([*fleet(THERE, HERE), trial("there", 20, 0.4)], 20)


def test_a_smaller_model_is_measured_though_slow():
    """It cannot be dominated by larger ones."""
    assert not why([*fleet(THERE, HERE), trial("there", 20, 1.25, size=1.0)], 20)


def test_devices_that_disagree_spare_each_other_nothing():
    """The other device's order, reversed."""
    assert not why([*fleet(THERE, [1.0, *HERE[:0:-1]]), trial("there", 20, 1.25)], 20)


def test_few_common_candidates_say_nothing():
    """Seven points are no evidence."""
    assert agreement(ratios(fleet(THERE[:7], HERE[:7]), "here"), ratios([], "there")) is None
    assert not why([*fleet(THERE[:7], HERE[:7]), trial("there", 20, 1.25)], 20)


def test_failures_and_other_settings_are_no_ratios():
    """Only the baseline's settings count, and only what was measured."""
    given = trial("here", 0, 1.0)
    failed = Trial(
        number=1,
        candidate=Candidate(recipe=recipe(1)),
        device="here",
        protocol="quick",
        strategy="s",
        outcome=Failure(stage="load", reason="no"),
    )
    assert ratios([given, failed, trial("here", 2, 0.5, threads=4)], "here") == {
        recipe(0).digest: 1.0
    }


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=20, unique=True), st.randoms())
def test_rank_correlation_sees_order_only(values, random):
    """Any increasing function keeps it at one; the order of the pairs does not matter."""
    x = np.array(values, dtype=np.float64)
    assert np.isclose(rank_correlation(x, x**2), 1)
    y = np.array(random.sample(values, len(values)), dtype=np.float64)
    order = np.array(random.sample(range(len(values)), len(values)))
    assert np.isclose(rank_correlation(x, y), rank_correlation(x[order], y[order]))
    assert np.isclose(rank_correlation(x, y), rank_correlation(y, x))
