"""`pick`: one model by limits and a preference, from the same document as the report."""

from collections.abc import Mapping
from typing import Any

import pytest
from report_factory import context, measurement, study, trial, trials

from edgeopt.api.pick import LEAST, MOST, limit_of
from edgeopt.errors import NothingToDoError, UsageError
from edgeopt.report.choice import choice_text, chosen
from edgeopt.report.document import document


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return document(study(), trials(), context())


def _chosen(found: dict[str, Any], prefer: str = "fastest", **limits: float) -> dict[str, Any]:
    most = {name: value for name, value in limits.items() if name != "accuracy"}
    least = {name: value for name, value in limits.items() if name == "accuracy"}
    return chosen(found, "local", most=most, least=least, prefer=prefer)


@pytest.mark.parametrize(
    ("prefer", "limits", "wanted"),
    [
        ("fastest", {}, "c3"),
        ("smallest", {}, "c4"),
        ("most_accurate", {}, "c0"),
        ("fastest", {"size": 350_000.0}, "c4"),
        ("fastest", {"accuracy": 0.944}, "c0"),
        ("smallest", {"latency": 5e-3}, "c3"),
        ("knee", {"latency": 5e-3}, "c3"),
    ],
)
def test_limits_come_before_the_preference(
    found: dict[str, Any], prefer: str, limits: Mapping[str, float], wanted: str
) -> None:
    """Only members of the front that keep every limit are compared."""
    made = _chosen(found, prefer, **limits)
    assert made["pick"]["id"] == wanted
    assert {made["pick"]["id"], *made["kept"]} <= {"c0", "c3", "c4"}


def test_the_reason_names_limits_and_those_that_miss_them(found: dict[str, Any]) -> None:
    """In words and units, with the difference to the given model."""
    made = _chosen(found, latency=5e-3)
    assert made["why"] == "fastest of 1 model of the front with latency at most 5 ms"
    reasons = {each["id"]: each["reason"] for each in made["refused"]}
    assert reasons["c4"].startswith("latency 6.4")
    assert reasons["c4"].endswith("is above 5 ms")
    changes = {each["metric"]: each["text"] for each in made["against_given"]}
    assert changes["size"] == "−68.3 %"
    text = choice_text(made, found)
    assert "PICK" in text
    assert f"next     edgeopt export {found['study']['id']} c3 -o c3" in text


def test_a_tie_is_said() -> None:
    """The fastest of two that nobody can tell apart."""
    first, second = (
        trial(n, measurement(0.5, 400_000 + n, 0.94 + n / 1000), f"s{n}") for n in (1, 2)
    )
    made = _chosen(document(study(), [trials()[0], first, second], context()))
    assert "its latency cannot be told from that of c" in made["why"]


def test_nothing_within_the_limits_names_the_nearest(found: dict[str, Any]) -> None:
    """Exit code 5, and what it misses by."""
    with pytest.raises(NothingToDoError, match="has latency at most 1 ms") as refused:
        _chosen(found, latency=1e-3, size=390_000.0)
    assert "nearest is c3: latency 3.8" in refused.value.hint
    with pytest.raises(NothingToDoError, match="energy at most"):
        _chosen(found, energy=1.0)


def test_an_empty_front_is_no_matter_of_limits() -> None:
    """No model keeps the study's own bounds."""
    poor = trial(0, measurement(1.0, 1_200_000, 0.90), label="baseline")
    with pytest.raises(NothingToDoError, match="is empty"):
        _chosen(document(study(), [poor], context()))


def test_what_is_not_known_is_no_preference(found: dict[str, Any]) -> None:
    """Nor is a device that the study has not seen."""
    with pytest.raises(UsageError, match="no power sensor"):
        _chosen(found, "least_energy")
    with pytest.raises(UsageError, match="no preference 'best'"):
        _chosen(found, "best")
    with pytest.raises(UsageError, match="not run on 'pi5'"):
        chosen(found, "pi5", most={}, least={}, prefer="fastest")


@pytest.mark.parametrize("text", ["size=4", "speed=4ms", "latency", "accuracy=92%"])
def test_limits_have_units(text: str) -> None:
    """A bare number says nothing."""
    with pytest.raises(UsageError):
        limit_of(text, "max", MOST)


def test_limits_are_read_in_si_units() -> None:
    """Milliseconds, decimal megabytes, millijoules, per cent."""
    assert limit_of("latency=8ms", "max", MOST) == ("latency", pytest.approx(8e-3))
    assert limit_of("size=4MB", "max", MOST) == ("size", 4_000_000)
    assert limit_of("energy=3mJ", "max", MOST) == ("energy", pytest.approx(3e-3))
    assert limit_of("accuracy=92%", "min", LEAST) == ("accuracy", pytest.approx(0.92))
