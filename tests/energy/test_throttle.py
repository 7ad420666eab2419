"""Throttle counters and the GPU's load on fake boards."""

from pathlib import Path
from typing import Any

import pytest

from tests.boards.boards import build, write
from tests.energy.agent_energy import asked


def throttled(before: str, after: str, root: Path) -> dict[str, Any]:
    """What rose between two masks of the Raspberry Pi's firmware, in one process."""
    write(root, "/firmware/get_throttled", f"throttled={before}\n")
    place = root / "firmware/get_throttled"
    code = (
        f"[throttle.counters(), open({str(place)!r}, 'w').write('throttled={after}'), "
        "throttle.counters()]"
    )
    first, _, second = asked(root, code)
    return {key: second[key] - first[key] for key in second if second[key] > first[key]}


@pytest.mark.parametrize(
    ("before", "after", "risen"),
    [
        ("0x0", "0x0", set()),
        ("0x50000", "0x50000", set()),
        ("0x0", "0x10000", {"under_voltage"}),
        ("0x50000", "0x50005", {"under_voltage_now", "throttled_now"}),
        ("0x50005", "0x50005", {"under_voltage_now", "throttled_now"}),
        ("0x0", "0x80008", {"soft_temperature_limit", "soft_temperature_limit_now"}),
    ],
)
def test_bits_that_appear_count(before: str, after: str, risen: set[str], tmp_path: Path) -> None:
    """Bits since boot that were set before say nothing; what holds now says so each time."""
    assert set(throttled(before, after, build("raspberry-pi-5", tmp_path))) == risen


def test_over_current_events_of_a_jetson(tmp_path: Path) -> None:
    """Cumulative counters by name, and the GPU's load and clock."""
    root = build("jetson-orin-nano", tmp_path)
    place = next(
        each
        for each in (root / "sys/class/hwmon").iterdir()
        if (each / "name").read_text().strip() == "soctherm_oc"
    )
    (place / "oc3_event_cnt").write_text("27390\n")
    state = asked(root, "throttle.state()")
    assert state["throttle"] == {"oc1_event_cnt": 0, "oc2_event_cnt": 0, "oc3_event_cnt": 27390}
    assert state["gpu_busy"] == pytest.approx(0.37)
    assert state["gpu_clock_hz"] == 624750000


def test_devfreq_of_a_mali(tmp_path: Path) -> None:
    """Load in per cent with the clock behind it."""
    state = asked(build("rock-5b", tmp_path), "throttle.state()")
    assert state == {"throttle": None, "gpu_busy": 0.37, "gpu_clock_hz": 624750000.0}


def test_a_board_without_any(tmp_path: Path) -> None:
    """None, not zero."""
    state = asked(build("generic-arm64", tmp_path), "throttle.state()")
    assert state == {"throttle": None, "gpu_busy": None, "gpu_clock_hz": None}


def test_firmware_that_fails_is_unknown(tmp_path: Path) -> None:
    """An answer that is none leaves every bit unknown."""
    root = build("raspberry-pi-4", tmp_path)
    write(root, "/firmware/get_throttled", "VCHI initialization failed\n")
    assert set(asked(root, "throttle.counters()").values()) == {None}
