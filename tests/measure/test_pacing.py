"""Values at the user's rate, from replies of `pace`."""

from typing import Any

import pytest

from edgeopt.measure.pacing import paced_values
from edgeopt.measure.plan import NORMAL, PROTOCOLS
from edgeopt.units import parse_rate_hz


def window(seconds: float, *, missed: int = 0, periods: int = 100) -> dict[str, Any]:
    """A window of equal latencies, each inference with two milliseconds of processor time."""
    runs = periods - missed
    return {
        "times_s": [seconds] * runs,
        "missed": missed,
        "periods": periods,
        "cpu_s": 0.002 * runs,
        "wall_s": 3.0,
    }


def pace(candidate: list[dict[str, Any]], baseline: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "candidate": {"blocks": candidate, "warmup": {"runs": 5}},
        "baseline": {"blocks": baseline, "warmup": {"runs": 5}},
    }


def test_latency_and_misses_at_a_rate() -> None:
    """The median from the period's start, and which share of periods had no result in time."""
    reply = pace([window(0.010), window(0.012, missed=20)], [window(0.020), window(0.024)])
    found = paced_values(reply, 30.0)
    latency, misses = found["paced_latency"], found["deadline_misses"]
    assert latency.value == pytest.approx(0.5 * 0.022)
    assert latency.samples
    assert latency.samples.count == 180
    assert "p90 below 12 ms" in latency.note
    assert "2 ms against the baseline's 2 ms of processor time" in latency.note
    assert misses.value == pytest.approx(0.10)
    assert misses.interval
    assert 0 < misses.interval.low < 0.10 < misses.interval.high < 0.2
    assert misses.note == "20 of 200 periods at 30/s; the baseline 0 of 200"


def test_no_miss_is_not_certainty() -> None:
    """None of 200: the interval says up to which share that may be luck."""
    misses = paced_values(pace([window(0.01)] * 2, [window(0.01)] * 2), 30.0)["deadline_misses"]
    assert misses.value == 0
    assert misses.interval
    assert misses.interval.low == 0
    assert 0.01 < misses.interval.high < 0.02


def test_windows_hold_ten_periods() -> None:
    """A slow rate makes a window longer, not emptier."""
    assert NORMAL.periods(30.0) == 300
    assert {rung.periods(0.1) for rung in PROTOCOLS.values()} == {10}
    assert NORMAL.periods(parse_rate_hz("30/s")) == 300
