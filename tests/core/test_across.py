"""Several devices: ranks, regret and robust picks, for any study."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core import across
from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.measurement import Failure, Measurement, Value, Verdict
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial

DEVICES = ("one", "two", "three")
OBJECTIVES = (
    Objective(metric="latency"),
    Objective(metric="accuracy", direction="max", bound=0.9),
    Objective(metric="energy"),
)
BOUNDS = dict.fromkeys(DEVICES, OBJECTIVES)
SITES = "abcdef"


def _trial(
    number: int,
    device: str,
    site: str,
    latency: float | None,
    accuracy: float = 0.95,
    *,
    threads: int = 1,
    status: str = "valid",
) -> Trial:
    """A recipe at a site; None as latency is a failure."""
    actions = [Action.of("static_qdq", site)] if site else []
    outcome: Measurement | Failure = Failure(stage="run", reason="killed")
    if latency is not None:
        outcome = Measurement(
            values={
                "latency": Value(value=latency, unit="s"),
                "accuracy": Value(value=accuracy, unit="1"),
            },
            absent={"energy": "no sensor"},
            verdict=Verdict(status=status, reasons=("hot",)),  # type: ignore[arg-type]
        )
    return Trial(
        number=number,
        candidate=Candidate(
            recipe=Recipe(baseline="sha256:" + "b" * 64).then(*actions),
            runtime=RuntimeSettings(threads=threads),
        ),
        device=device,
        protocol="normal",
        strategy="random",
        outcome=outcome,
    )


_ROW = st.tuples(
    st.sampled_from(DEVICES),
    st.sampled_from(SITES),
    st.none() | st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0]),
    st.sampled_from([0.5, 0.95]),
    st.integers(1, 2),
)
_ROWS = st.lists(_ROW, max_size=24)


def _study(rows: Sequence[tuple[str, str, float | None, float, int]]) -> list[Trial]:
    return [
        _trial(n, device, site, latency, accuracy, threads=threads)
        for n, (device, site, latency, accuracy, threads) in enumerate(rows)
    ]


@settings(deadline=None)
@given(rows=_ROWS, seed=st.integers(0, 99))
def test_regret_for_any_study(
    rows: list[tuple[str, str, float | None, float, int]], seed: int
) -> None:
    """Own pick 0, never below 0 against the fastest, a reason or a value, the same in any order."""
    trials = _study(rows)
    found = across.models(trials, DEVICES, BOUNDS)
    picks = {device: across.fastest(found, device) for device in DEVICES}
    regrets = across.regrets(found, picks, DEVICES)
    assert len(regrets) == len(DEVICES) ** 2
    for each in regrets:
        assert (each.value is None) == bool(each.reason)
        if each.value is not None:
            assert each.value >= 0
        if each.pick_of == each.used_on and picks[each.used_on] is not None:
            assert each.value == 0
    robust = across.robust(found, picks, DEVICES)
    if robust.minimax is not None and robust.mean is not None:
        assert robust.minimax.worst <= robust.mean.worst
        assert robust.mean.mean <= robust.minimax.mean
        assert all(robust.minimax.model.usable(device) for device in DEVICES)
    assert (robust.considered == 0) == (robust.minimax is None)
    mixed = list(trials)
    random.Random(seed).shuffle(mixed)
    again = across.models(mixed, DEVICES, BOUNDS)
    assert again == found
    assert across.regrets(again, picks, DEVICES) == regrets
    assert across.correlations(again, DEVICES) == across.correlations(found, DEVICES)


def test_ranks_are_compared_over_common_models_only() -> None:
    """Opposite ranks of four models; what only one has run plays no part."""
    times = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    trials = [_trial(n, "one", site, t) for n, (site, t) in enumerate(times.items())]
    trials += [_trial(n + 9, "two", site, 10 - t) for n, (site, t) in enumerate(times.items())]
    trials += [_trial(20, "one", "e", 9.0), _trial(21, "three", "a", 1.0)]
    found = across.models(trials, DEVICES, BOUNDS)
    one_two, one_three, _ = across.correlations(found, DEVICES)
    assert (one_two.value, one_two.count) == (pytest.approx(-1.0), 4)
    assert (one_three.value, one_three.count) == (None, 1)
    assert "fewer than 3" in one_three.reason


def test_equal_times_have_no_ranks() -> None:
    """No value where all models take the same time on one of the two."""
    trials = [_trial(n, "one", site, 1.0) for n, site in enumerate("abc")]
    trials += [_trial(n + 9, "two", site, 1.0 + n) for n, site in enumerate("abc")]
    found = across.models(trials, DEVICES[:2], BOUNDS)
    assert across.correlations(found, DEVICES[:2])[0].value is None


def test_a_model_is_as_fast_as_its_best_settings() -> None:
    """The same recipe with two threads; one beyond a bound counts only alone."""
    trials = [
        _trial(0, "one", "a", 2.0),
        _trial(1, "one", "a", 1.0, threads=2),
        _trial(2, "one", "a", 0.5, 0.1, threads=3),
    ]
    (model,) = across.models(trials, ["one"], BOUNDS)
    assert model.measured["one"].number == 1


def test_why_a_model_cannot_serve_a_device() -> None:
    """Failed, invalid, beyond a bound, and never measured."""
    trials = [
        _trial(0, "one", "a", None),
        _trial(1, "one", "b", 1.0, status="invalid"),
        _trial(2, "one", "c", 1.0, 0.1),
        _trial(3, "two", "d", 1.0),
    ]
    found = {m.recipe: m.why_not("one") for m in across.models(trials, DEVICES, BOUNDS)}
    assert list(found.values()) == [
        "failed there in run: killed",
        "its measurement there is invalid: hot",
        "breaks a bound there (accuracy)",
        "not measured there",
    ]


def test_the_price_of_one_model_for_all() -> None:
    """Best on each device are others; the one in the middle costs least at worst."""
    times = {"one": (1.0, 4.0, 1.2), "two": (4.0, 1.0, 1.3)}
    trials = [
        _trial(10 * row + n, device, site, t)
        for row, (device, each) in enumerate(times.items())
        for n, (site, t) in enumerate(zip("abc", each, strict=True))
    ]
    names = DEVICES[:2]
    found = across.models(trials, names, BOUNDS)
    picks = {device: across.fastest(found, device) for device in names}
    robust = across.robust(found, picks, names)
    assert robust.minimax is not None
    assert robust.minimax.worst == pytest.approx(0.3)
    assert robust.minimax.mean == pytest.approx(0.25)
    assert {d: r.value for d, r in robust.minimax.price.items()} == {
        "one": pytest.approx(0.2),
        "two": pytest.approx(0.3),
    }
    assert (robust.considered, robust.excluded) == (3, ())
