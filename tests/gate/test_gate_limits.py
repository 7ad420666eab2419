"""Limits that are taken from a model are kept by it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.samples import Interval
from edgeopt.gate.budget import METRICS, Budget
from edgeopt.gate.config import quantity
from edgeopt.gate.evidence import Evidence
from edgeopt.gate.limits import limit_of, limit_text


@given(value=st.floats(1e-7, 1e4), unit=st.sampled_from(["s", "J", "B"]))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_limit_is_never_below_its_value(value: float, unit: str):
    """And at most one part in a hundred above it, as three digits go."""
    value = round(value * 1e9) + 1 if unit == "B" else value
    read = quantity(limit_text(value, unit), unit)
    assert value <= read <= value * 1.011


@given(value=st.floats(0, 1))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_least_value_is_never_above(value: float):
    """Of accuracies; to a hundredth of a point."""
    read = quantity(limit_text(value, "1", higher=True), "1")
    assert value - 1.01e-4 <= read <= value + 1e-12


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (163926, "B", "164 kB"),
        (4e6, "B", "4.00 MB"),
        (999.6e3, "B", "1000 kB"),
        (0.0123, "s", "12.3 ms"),
        (0.0123001, "s", "12.4 ms"),
        (28, "", 28),
        (0.0, "s", "0 us"),
    ],
)
def test_texts(value: float, unit: str, text: str | int):
    """As a person would write them; counts in full."""
    assert limit_text(value, unit) == text


def _budget(**more: object) -> Budget:
    return Budget(id="b", metric=METRICS["latency.p50"], device="d", **more)


def test_room_for_noise():
    """Of a measured value the far end, and what the device cannot tell apart but once."""
    interval = Interval(value=1.0, low=0.9, high=1.1)
    found = Evidence(value=1.0, origin="measured", interval=interval, floor=0.04)
    assert limit_of(_budget(limit=9.0), found) == pytest.approx(1.1 * 1.04)
    assert limit_of(_budget(limit=9.0, tolerance=0.03), found) == pytest.approx(1.1 * 1.01)
    assert limit_of(_budget(limit=9.0, tolerance=0.3), found) == pytest.approx(1.1)
    assert limit_of(_budget(change=0.03), found) is None


def test_exact_values_as_they_are():
    """No noise, no room."""
    budget = Budget(id="b", metric=METRICS["size"], limit=9.0)
    assert limit_of(budget, Evidence(value=5.0, origin="exact")) == 5.0
