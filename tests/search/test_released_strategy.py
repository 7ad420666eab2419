"""The strategy that releases: from what it begins, which groups go back to float, when it ends."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial
from edgeopt.search.codes import Codes, encode
from edgeopt.search.released import MOST, Released
from edgeopt.search.table import Pair
from edgeopt.testing.toy_space import ToyDevice, ToySpace

SPACE = ToySpace()
GROUPS = [i for i, choice in enumerate(SPACE.choices) if choice.family == "quantize"]
BOUNDED = (
    Objective(metric="latency"),
    Objective(metric="accuracy", direction="max", bound=0.89),
)
LOUD = GROUPS[-1]


def _noise(places: Sequence[Pair]) -> Sequence[float]:
    """One group is as loud as all others together."""
    return [float(len(GROUPS) - 1) if index == LOUD else 1.0 for index, _ in places]


def _make(objectives: Sequence[Objective] = BOUNDED) -> Released:
    return Released(SPACE, objectives, _noise)


def _trial(row: Codes, latency: float, accuracy: float, label: str = "") -> Trial:
    candidate = Candidate(recipe=SPACE.decode(row))
    (trial,) = ToyDevice(SPACE, noise=0.0, failing=0.0).measure([candidate])
    assert isinstance(trial.outcome, Measurement)
    values = {
        "latency": Value(value=latency, unit="s"),
        "accuracy": Value(value=accuracy, unit=""),
    }
    outcome = replace(trial.outcome, values=values)
    return replace(trial, outcome=outcome, label=label)


def _on(groups: Sequence[int]) -> Codes:
    return tuple(int(i in groups) for i in range(len(SPACE.choices)))


def _row(found: Sequence[Candidate]) -> Codes:
    (candidate,) = found
    row = encode(SPACE.choices, candidate.recipe)
    assert row is not None
    return row


BASE = _trial(_on(()), 1.0, 0.9)
EVERYTHING = _trial(_on(GROUPS), 0.4, 0.887, "int8_everything")


def test_the_loudest_group_goes_back_to_float() -> None:
    """It loses 1.3 points of one allowed, and half of the noise is one group's."""
    strategy = _make()
    strategy.tell([BASE, EVERYTHING])
    found = strategy.ask(10)
    assert _row(found) == _on([i for i in GROUPS if i != LOUD])
    assert strategy.labels[found[0].key] == "int8_everything without 1"


def test_nothing_is_released_where_all_is_kept_or_too_much_is_lost() -> None:
    """Nor from what is no faster than something that keeps the bound."""
    strategy = _make()
    strategy.tell([BASE])
    assert strategy.waits
    assert not strategy.ask(10)
    strategy.tell([_trial(_on(GROUPS), 0.4, 0.895)])
    assert not strategy.ask(10)
    strategy.tell([_trial(_on(GROUPS[:-1]), 0.39, 0.88)])
    assert not strategy.ask(10)
    strategy.tell([_trial(_on(GROUPS[1:]), 0.2, 0.7)])
    assert not strategy.ask(10)


def test_what_was_released_is_released_further_and_four_times_at_most() -> None:
    """Each time more groups are in float; then it asks for nothing more, and waits for nothing."""
    strategy = _make()
    strategy.tell([BASE, EVERYTHING])
    rows = [_on(GROUPS)]
    for number in range(MOST):
        found = strategy.ask(10)
        if not found:
            break
        rows.append(_row(found))
        strategy.tell([_trial(rows[-1], 0.41 + number / 100, 0.888)])
    assert all(sum(later) < sum(before) for before, later in itertools.pairwise(rows))
    assert 2 < len(rows) <= MOST + 1
    if len(rows) == MOST + 1:
        assert not strategy.waits
        assert not strategy.ask(10)


def test_without_a_bound_nothing_is_released() -> None:
    """Then any accuracy is as good as another."""
    for objectives in (BOUNDED[:1], (BOUNDED[0], Objective(metric="accuracy", direction="max"))):
        strategy = _make(objectives)
        strategy.tell([BASE, EVERYTHING])
        assert not strategy.ask(10)
