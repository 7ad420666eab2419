"""The document: what it says of a study, and what it must never say."""

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_schema import breaches
from report_factory import context, latency, measurement, samples, study, trial, trials

from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.measurement import Failure, Measurement, Value
from edgeopt.core.trial import Trial
from edgeopt.report.document import ReportContext, document
from edgeopt.report.terminal import terminal

SCHEMA = json.loads(files("edgeopt.report").joinpath("schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(study(), trials(), context())


def _given() -> Trial:
    return trial(0, measurement(1.0, 1_200_000, 0.945), label="baseline", strategy="static")


def _one(*more: Trial, **settings: object) -> dict[str, Any]:
    return document(study(), [_given(), *more], context(**settings))


@pytest.mark.parametrize("count", range(len(trials()) + 1))
def test_it_meets_its_published_schema(count: int) -> None:
    """At every length of a study, the empty one included."""
    made = document(study(), trials()[:count], context())
    assert list(breaches(json.loads(json.dumps(made, allow_nan=False)), SCHEMA, SCHEMA)) == []


def test_the_schema_refuses_what_is_not_described(found: dict[str, Any]) -> None:
    """A missing key, a new key and a number that became a text are all noticed."""
    del_key = {key: value for key, value in found.items() if key != "ledger"}
    assert list(breaches(del_key, SCHEMA, SCHEMA)) == [": no ledger"]
    assert list(breaches({**found, "new": 1}, SCHEMA, SCHEMA)) == [": new is not described"]
    assert list(breaches({**found, "created": 3}, SCHEMA, SCHEMA))


def test_trials_stand_where_they_belong(found: dict[str, Any]) -> None:
    """Front, dominated, infeasible, invalid and failed are told apart; nothing is left out."""
    standing = {p["id"]: p["standing"] for p in found["candidates"]["local"]}
    assert standing == {
        "c3": "front",
        "c4": "front",
        "c0": "front",
        "c1": "dominated",
        "c2": "infeasible",
        "c5": "dominated",
        "c6": "invalid",
        "c7": "failed",
        "c8": "failed",
    }
    assert [p["id"] for p in found["fronts"]["local"]] == ["c3", "c4", "c0"]
    assert found["baseline"]["local"]["id"] == "c0"


def test_what_is_shipped_today_keeps_the_allowed_drop(found: dict[str, Any]) -> None:
    """The fastest peer breaks the bound, the next one counts; our own recipes never do."""
    assert found["shipped_today"]["local"]["id"] == "c1"
    without = document(study(), trials(), context(peer_labels=()))
    assert without["shipped_today"]["local"]["id"] == "c0"


def test_a_confirmed_peer_is_still_a_peer() -> None:
    """Measured again by another strategy under the same label."""
    peer = trial(1, measurement(0.7, 420_000, 0.94), "a", label="static:int8", strategy="static")
    again = replace(peer, number=2, protocol="publish", strategy="confirm")
    made = _one(peer, again)
    assert made["shipped_today"]["local"]["id"] == "c2"
    assert made["verdict"]["local"]["gained"] is False
    assert made["verdict"]["local"]["better_than_given"] is True
    assert "static:int8" in made["verdict"]["local"]["text"]


def test_picks_name_members_and_reasons(found: dict[str, Any]) -> None:
    """Each pick is feasible and says why."""
    picks = found["picks"]["local"]
    assert {name: pick["id"] for name, pick in picks.items() if name != "knee"} == {
        "fastest": "c3",
        "smallest": "c4",
        "most_accurate": "c0",
    }
    assert picks["knee"]["id"] in {"c0", "c3", "c4"}
    assert all(pick["reason"] for pick in picks.values())


def test_a_gain_is_told_against_both(found: dict[str, Any]) -> None:
    """The verdict names the pick, the given model and what would be shipped today."""
    verdict = found["verdict"]["local"]
    assert verdict["take"] == "c3"
    assert verdict["gained"] is True
    assert "than the given model" in verdict["text"]
    assert "faster than what would be shipped today (c1, static:int8)" in verdict["text"]
    assert "14 lost, 6 won" in verdict["text"]
    assert verdict["next"] == f"edgeopt export {study().id} c3 -o c3"


@pytest.mark.parametrize(
    ("ratio", "spread", "rounds", "said"),
    [
        (0.9, 0.005, 1, "faster"),
        (0.97, 0.002, 1, "no difference shown"),
        (0.97, 0.002, 3, "faster"),
        (1.1, 0.005, 1, "slower"),
        (0.9, 0.9, 3, "no difference shown"),
    ],
)
def test_words_follow_the_interval(ratio: float, spread: float, rounds: int, said: str) -> None:
    """Under 5 % three fresh processes are needed; an interval with 1 in it shows nothing."""
    taken = samples(ratio, spread=min(spread, 0.3), rounds=rounds, seed=5)
    made = _one(trial(1, measurement(ratio, 1_200_000, 0.945, taken=taken), "a"))
    point = next(p for p in made["candidates"]["local"] if p["id"] == "c1")
    assert point["ratio"]["relation"] == said
    assert (said == "faster") == taken.faster


def test_what_was_not_measured_was_not_in_vain() -> None:
    """A busy machine, or a time that was over at once, shows nothing of the search."""
    bare = document(study(), [_given()], context())["verdict"]["local"]
    assert (bare["take"], bare["text"]) == (
        "c0",
        "nothing else was tried yet: ship the given model as it is",
    )
    unusable = next(t for t in trials() if t.number == 6)
    second = replace(unusable, number=2, candidate=trial(2, unusable.outcome, "b").candidate)
    many = _one(unusable, second)
    found = many["verdict"]["local"]
    assert found["take"] == "c0"
    assert found["text"].startswith("nothing is known yet: no valid measurement of 2 others")
    failed = next(t for t in trials() if t.number == 7)
    assert "nothing was gained" in _one(failed)["verdict"]["local"]["text"]


def test_nothing_gained_is_said_plainly() -> None:
    """No candidate helps: ship the given model; nothing is called fastest but itself."""
    slower = trial(1, measurement(1.2, 1_300_000, 0.96), "a")
    made = _one(slower)
    assert made["verdict"]["local"]["take"] == "c0"
    assert "nothing was gained" in made["verdict"]["local"]["text"]
    assert made["picks"]["local"]["fastest"]["id"] == "c0"
    assert made["picks"]["local"]["smallest"]["reason"] == "nothing smaller than the given model"
    assert "--budget" in made["verdict"]["local"]["next"]


def test_a_smaller_model_of_the_same_speed_is_a_gain_in_size_only() -> None:
    """It is called smaller, never faster; and not where a peer is as small."""
    same = measurement(1.0, 400_000, 0.944, taken=samples(1.0, seed=3))
    made = _one(trial(1, same, "a"))
    assert made["verdict"]["local"]["take"] == "c1"
    assert "smaller, in speed no difference shown (time" in made["verdict"]["local"]["text"]
    assert "× faster" not in made["verdict"]["local"]["text"]
    peer = trial(2, same, "b", label="static:int8", strategy="static")
    assert _one(trial(1, same, "a"), peer)["verdict"]["local"]["gained"] is False


def test_an_unknown_speed_is_no_gain() -> None:
    """Smaller, but so noisy that it might be half as fast: said beside, not taken."""
    noisy = measurement(1.1, 400_000, 0.944, taken=samples(1.1, spread=0.3, seed=4))
    verdict = _one(trial(1, noisy, "a"))["verdict"]["local"]
    assert verdict["take"] == "c0"
    assert "(c1 is smaller, size −66.7 %, but in speed no difference shown" in verdict["text"]


def test_more_accurate_needs_more_than_the_data_can_decide() -> None:
    """A point better than the smallest decidable difference counts, less does not."""
    better = trial(1, measurement(1.0, 1_200_000, 0.96, taken=samples(1.0, seed=3)), "a")
    assert _one(better)["verdict"]["local"]["take"] == "c1"
    assert _one(better, decidable_drop=0.02)["verdict"]["local"]["take"] == "c0"
    assert _one(better, decidable_drop=None)["verdict"]["local"]["take"] == "c0"


def test_of_equally_fast_ones_the_more_accurate_is_taken() -> None:
    """Two whose latency intervals overlap: accuracy is free between them."""
    first = measurement(0.5, 400_000, 0.935, taken=samples(0.5, spread=0.04, seed=1))
    second = measurement(0.505, 410_000, 0.944, taken=samples(0.505, spread=0.04, seed=2))
    made = _one(trial(1, first, "a"), trial(2, second, "b"))
    assert made["fronts"]["local"][0]["ties"] == [made["fronts"]["local"][1]["id"]]
    assert made["verdict"]["local"]["take"] == "c2"


def test_no_feasible_candidate_shows_the_nearest() -> None:
    """Empty fronts say which bound is broken, by how much."""
    poor = trial(0, measurement(1.0, 1_200_000, 0.90), label="baseline")
    made = document(study(), [poor, trial(1, measurement(0.5, 400_000, 0.8), "a")], context())
    assert made["fronts"]["local"] == []
    assert made["verdict"]["local"]["take"] is None
    assert made["verdict"]["local"]["nearest"][0] == "c0: accuracy 90.00 % is below 93.00 %"
    assert all(pick is None for pick in made["picks"]["local"].values())


def test_a_study_without_a_valid_baseline_compares_nothing() -> None:
    """Failures alone are a document too."""
    made = document(study(), [trial(0, Failure(stage="run", reason="killed"))], context())
    assert made["baseline"]["local"] is None
    assert "nothing can be compared" in made["verdict"]["local"]["text"]


def test_other_settings_of_the_given_file_are_not_the_baseline() -> None:
    """The empty recipe with optimizations off is a candidate like any other."""
    off = Candidate(recipe=_given().candidate.recipe, runtime=RuntimeSettings(optimization="off"))
    slow = replace(trial(0, measurement(1.6, 1_200_000, 0.945)), candidate=off)
    made = document(study(), [slow, replace(_given(), number=1)], context())
    assert made["baseline"]["local"]["id"] == "c1"
    other = next(p for p in made["candidates"]["local"] if p["id"] == "c0")
    assert (other["role"], other["summary"]) == ("search", "cpu threads=1 optimization=off")


def test_recipes_parse_back(found: dict[str, Any]) -> None:
    """The lines are those of a recipe file."""
    point = next(p for p in found["fronts"]["local"] if p["id"] == "c3")
    assert Recipe.parse("\n".join(point["recipe"])) == trials()[3].candidate.recipe
    assert point["actions"] == 2
    assert point["model"] == "reports/x/c3.onnx"


def test_failures_are_counted_by_stage_with_examples(found: dict[str, Any]) -> None:
    """An invalid measurement is one more stage; the reason is kept."""
    counted = {each["stage"]: each["count"] for each in found["failures"]}
    assert counted == {"build": 1, "verify": 1, "invalid measurement": 1}
    reasons = [e["reason"] for each in found["failures"] for e in each["examples"]]
    assert "output 0 differs by 3.1" in reasons


def test_what_is_not_known_is_said(found: dict[str, Any]) -> None:
    """Decidable drop, percentiles, absent metrics and suspect members."""
    text = "\n".join(found["unknown"]["local"])
    assert "under 0.81 pt" in text
    assert "p99 (662)" in text
    assert "energy: the device has no power sensor" in text
    assert "c4 is suspect: the clock moved by 12 %" in text


def test_a_miss_on_the_test_part_is_flagged_and_never_selects() -> None:
    """The candidate stays on the front, with a note."""
    made = _one(trial(1, measurement(0.5, 400_000, 0.944, test=0.90), "a"))
    assert [p["id"] for p in made["fronts"]["local"]] == ["c1", "c0"]
    assert "misses the allowed drop on the test part" in made["fronts"]["local"][0]["notes"][0]
    assert any("misses the allowed drop" in line for line in made["unknown"]["local"])


def test_without_data_accuracy_is_unknown() -> None:
    """No accuracy objective, no accuracy claim."""
    asked = replace(study(data=""), objectives=study().objectives[:2], metric="")
    given_one = trial(0, measurement(1.0, 1_200_000, None), label="baseline")
    made = document(asked, [given_one, trial(1, measurement(0.5, 1_000_000, None), "a")], context())
    assert made["verdict"]["local"]["take"] == "c1"
    assert made["picks"]["local"]["most_accurate"] is None
    assert "there is no data" in made["unknown"]["local"][0]


def test_what_was_tried_in_vain_is_listed(found: dict[str, Any]) -> None:
    """The peer that broke the bound and the strategy that has nothing on the front."""
    assert found["in_vain"]["local"] == [
        "static:ort (c2): accuracy 61.00 % is below 93.00 %",
        "random: 1 trial, 12 s on the device, none on the front",
    ]


def test_devices_do_not_mix() -> None:
    """Each device has its own baseline, front and verdict."""
    both = [*trials("local"), *trials("pi5", first=20)[:2]]
    made = document(study(devices=("local", "pi5")), both, context())
    assert [p["id"] for p in made["fronts"]["local"]] == ["c3", "c4", "c0"]
    assert made["baseline"]["pi5"]["id"] == "c20"
    assert {p["id"] for p in made["candidates"]["pi5"]} == {"c20", "c21"}


def test_one_block_has_no_interval_and_shows_nothing() -> None:
    """Infinite bounds become null, and no claim is made."""
    taken = replace(samples(0.4), blocks=((0.003,),), baseline=((0.008,),), rounds=(0,))
    value = latency(taken)
    made = _one(
        trial(1, Measurement(values={"latency": value, "size": _size(), "accuracy": _ok()}), "a")
    )
    point = next(p for p in made["candidates"]["local"] if p["id"] == "c1")
    assert point["ratio"]["high"] is None
    assert point["ratio"]["relation"] == "no difference shown"
    json.dumps(made, allow_nan=False)


def _size() -> Value:
    return Value(value=1_200_000, unit="B")


def _ok() -> Value:
    return Value(value=0.945, unit="1")


_MEASURED = st.tuples(
    st.sampled_from([0.3, 0.6, 0.94, 0.99, 1.0, 1.05, 1.5]),
    st.sampled_from([300_000, 900_000, 1_200_000, 1_500_000]),
    st.sampled_from([0.90, 0.93, 0.945, 0.97]),
    st.sampled_from(["", "static:int8", "static:ort"]),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(_MEASURED, max_size=5))
def test_claims_hold_for_any_study(rows: Sequence[tuple[float, int, float, str]]) -> None:
    """Picks are feasible members; nothing is called faster that was not; the gain is over both."""
    more = [
        trial(n + 1, _cached(ratio, size, accuracy), f"site{n}", label=label)
        for n, (ratio, size, accuracy, label) in enumerate(rows)
    ]
    made = _one(*more)
    assert list(breaches(made, SCHEMA, SCHEMA)) == []
    points = {p["id"]: p for p in made["candidates"]["local"]}
    by_id = {f"c{t.number}": t for t in [_given(), *more]}
    for name, pick in made["picks"]["local"].items():
        assert pick is not None
        assert not points[pick["id"]]["broken_bounds"]
        if name == "fastest":
            value = by_id[pick["id"]].value("latency")
            assert value is not None
            assert value.samples is not None
            assert pick["id"] == "c0" or value.samples.faster
    verdict = made["verdict"]["local"]
    assert not points[verdict["take"]]["broken_bounds"]
    if verdict["gained"]:
        assert points[verdict["take"]]["role"] == "search"
        assert verdict["take"] != made["shipped_today"]["local"]["id"]
    assert terminal(made).count("\n") <= 25


_MADE: dict[tuple[float, int, float], Measurement] = {}


def _cached(ratio: float, size: int, accuracy: float) -> Measurement:
    """Intervals are bootstrapped once a distinct measurement."""
    key = ratio, size, accuracy
    if key not in _MADE:
        _MADE[key] = measurement(ratio, size, accuracy)
    return _MADE[key]


def test_a_context_has_defaults_for_everything() -> None:
    """The least that is known still makes a document."""
    made = document(study(), [_given()], ReportContext())
    assert list(breaches(made, SCHEMA, SCHEMA)) == []


def test_a_wide_interval_is_no_reason_to_give_speed_away() -> None:
    """The more accurate one ties with the fastest only because little is known of its speed."""
    fast = measurement(0.7, 500_000, 0.935, taken=samples(0.7, seed=1))
    wide = measurement(0.88, 400_000, 0.944, taken=samples(0.88, spread=0.25, seed=5))
    made = _one(trial(1, fast, "a"), trial(2, wide, "b"))
    interval = next(p for p in made["candidates"]["local"] if p["id"] == "c2")["ratio"]
    assert interval["high"] > 0.7 * 1.1
    assert made["verdict"]["local"]["take"] == "c1"
