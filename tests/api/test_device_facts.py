"""Lines of a device check, from what boards say about themselves."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgeopt.api.device_facts import Check, checks_of_facts, checks_of_health
from edgeopt.api.device_history import last_checks, remember
from edgeopt.api.device_setup import entry_with, plan_for
from edgeopt.core.device import DeviceEntry
from edgeopt.errors import DeviceError, UsageError

JETSON = DeviceEntry(name="jetson")
ORIN: dict[str, Any] = {
    "system": "Linux",
    "python": "3.10.12",
    "architecture": "aarch64",
    "glibc": "2.35",
    "features": ["neon", "fp16", "dotprod"],
    "cores": 6,
    "board_model": "NVIDIA Jetson Orin Nano Developer Kit",
    "board": "NVIDIA Jetson Orin Nano Developer Kit",
    "compatible": ["nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"],
    "module": "p3767-0005",
    "soc": "tegra234",
    "jetpack": "6.2",
    "l4t": "36.4.3",
    "os": "Ubuntu 22.04.5 LTS",
    "os_release": {"ID": "ubuntu"},
    "power_mode": "15W",
    "machine_kind": "physical",
    "governor": "schedutil",
    "runtime": "1.23.0",
    "runtime_error": None,
    "providers": ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"],
    "providers_proven": {
        "CUDAExecutionProvider": {"ok": False, "text": "no kernel image is available"},
        "CPUExecutionProvider": {"ok": True, "text": "same numbers"},
    },
    "sensors": [
        {
            "name": "ina3221_hwmon",
            "scope": "board",
            "labels": ["VDD_IN"],
            "resolution_w": 0.04,
            "max_hz": 25.0,
            "readable": True,
            "reason": "",
        },
        {
            "name": "rapl",
            "scope": "package",
            "labels": [],
            "resolution_w": None,
            "max_hz": None,
            "readable": False,
            "reason": "only root may read it: a udev rule lets others",
        },
    ],
}
HEALTH: dict[str, Any] = {
    "executable": "/usr/bin/python3",
    "cache": "/data/edgeopt",
    "cache_free_bytes": 10 << 30,
    "processors": 6,
    "busy_share": 0.02,
    "memory_available_bytes": 5 << 30,
    "swap_used_bytes": 0,
    "state": {
        "clock_hz": 1.5e9,
        "temperature_c": 48.0,
        "throttle": {"oc1_event_cnt": 0},
        "gpu_busy": 0.0,
    },
}


def one(checks: Iterable[Check], name: str) -> Check:
    """The worst line of that name."""
    order = ["OK", "NOTE", "WARN", "FAIL"]
    return max(
        (each for each in checks if each.name == name), key=lambda each: order.index(each.status)
    )


def told(**changes: Any) -> list[Check]:
    """All lines about the board with other facts."""
    return list(checks_of_facts(JETSON, {**ORIN, **changes}, HEALTH))


def test_a_jetson_is_recognised_and_its_gpu_build_is_guarded():
    """Board, profile with its traps, power mode, and what must not be upgraded."""
    found = told()
    assert "JetPack 6.2" in one(found, "board").text
    assert one(found, "profile").text.startswith("jetson-orin-nano")
    assert one(found, "trap").status == "NOTE"
    assert "15W" in one(found, "power mode").text
    assert "pip install -U" in one(found, "onnxruntime").text
    assert one(found, "sensor").status == "WARN"
    assert "udev" in one(found, "sensor").text


def test_a_provider_that_is_listed_and_does_not_run_is_a_warning():
    """The processor's own is more than that."""
    found = one(told(), "provider")
    assert found.status == "WARN"
    assert "no kernel image" in found.text
    cpu = {"CPUExecutionProvider": {"ok": False, "text": "SIGILL"}}
    assert one(told(providers_proven=cpu), "provider").status == "FAIL"


def test_a_missing_runtime_names_wheel_command_and_gpu_source():
    """Nothing is installed by a check."""
    found = told(runtime=None, providers=[], providers_proven={}, runtime_error="No module")
    text = one(found, "onnxruntime").text
    assert "onnxruntime==1.23.2" in text
    assert "edgeopt device setup jetson" in text
    assert "/usr/bin/python3 -m pip" in text
    assert any("jetson-ai-lab" in each.text for each in found)


def test_another_profile_than_the_board_is_a_warning():
    """The user may have a reason, and the numbers carry it."""
    entry = DeviceEntry(name="jetson", profile="raspberry-pi-5")
    found = list(checks_of_facts(entry, ORIN, HEALTH))
    assert one(found, "profile").status == "WARN"


@pytest.mark.parametrize(
    ("entry", "name", "status", "said"),
    [
        ({"power_mode": "MAXN_SUPER"}, "power mode", "WARN", "MAXN_SUPER"),
        ({"power_mode": "15W"}, "power mode", "OK", "15W"),
        ({"meter": "no-such-meter --fast"}, "meter", "WARN", "neither"),
        ({"meter": "sh -c date", "meter_scope": "wall"}, "meter", "OK", "wall"),
        ({"meter": __file__}, "meter", "OK", "file"),
    ],
)
def test_what_the_entry_wants_is_compared_with_what_is(
    entry: dict[str, str], name: str, status: str, said: str
):
    """And stays the user's to set."""
    found = one(checks_of_facts(DeviceEntry(name="jetson", **entry), ORIN, HEALTH), name)
    assert (found.status, said in found.text) == (status, True)


@pytest.mark.parametrize(
    ("kind", "status"), [("physical", "OK"), ("vm", "NOTE"), ("emulated", "WARN")]
)
def test_times_of_unreal_hardware_are_marked(kind: str, status: str):
    """An emulated board computes right and slowly."""
    assert one(told(machine_kind=kind), "board").status == status


@pytest.mark.parametrize(
    ("change", "name", "said"),
    [
        ({"busy_share": 0.6}, "load", "noisy"),
        ({"memory_available_bytes": 100 << 20}, "memory", "swapping"),
        ({"state": {**HEALTH["state"], "temperature_c": 91.0}}, "temperature", "cool"),
        ({"state": {**HEALTH["state"], "throttle": {"oc1_event_cnt": 3}}}, "throttling", "supply"),
        ({"state": {**HEALTH["state"], "gpu_busy": 0.8}}, "load", "GPU 80%"),
    ],
)
def test_what_spoils_a_measurement_is_a_warning_with_a_cure(
    change: dict[str, Any], name: str, said: str
):
    """A quiet, cool board has none of them."""
    assert all(each.status == "OK" for each in checks_of_health(HEALTH))
    found = one(checks_of_health({**HEALTH, **change}), name)
    assert found.status == "WARN"
    assert said in found.text


@pytest.mark.parametrize(("free", "status"), [(None, "FAIL"), (1 << 20, "WARN"), (10 << 30, "OK")])
def test_the_folder_must_take_models(free: int | None, status: str):
    """Writable, with room."""
    health = {**HEALTH, "cache_free_bytes": free}
    assert one(checks_of_facts(JETSON, ORIN, health), "folder").status == status


def test_unknown_facts_are_no_lines_and_no_errors():
    """A board that tells nothing but what the agent always knows."""
    little = {"python": "3.9.2", "architecture": "aarch64", "features": [], "cores": 1}
    assert one(checks_of_facts(JETSON, little, {}), "governor").status == "NOTE"
    assert list(checks_of_health({})) == []
    assert list(checks_of_health({"state": {}}))


def test_setup_keeps_its_hands_off_a_gpu_build():
    """Unless it is told that a CPU runtime is wanted beside it."""
    with pytest.raises(UsageError, match="GPU build"):
        plan_for(JETSON, ORIN)
    assert plan_for(JETSON, ORIN, cpu=True).told.requirement == "onnxruntime==1.23.2"


@pytest.mark.parametrize(
    ("change", "said"),
    [({"architecture": "armv7l"}, "32-bit"), ({"system": "Darwin"}, "Linux only")],
)
def test_setup_says_where_it_cannot_help(change: dict[str, Any], said: str):
    """Before anything is downloaded."""
    with pytest.raises(UsageError, match=said):
        plan_for(JETSON, {**ORIN, "providers": [], "runtime": None, **change})


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("docker exec -i ort python3", "docker exec -i ort /v/bin/python"),
        (
            "chroot /srv/python-root /usr/bin/python3.11 -u",
            "chroot /srv/python-root /v/bin/python -u",
        ),
    ],
)
def test_a_command_keeps_all_but_its_interpreter(command: str, after: str):
    """The container stays the container."""
    entry = DeviceEntry(name="box", exec=command)
    assert entry_with(entry, "/v/bin/python").exec == after
    with pytest.raises(DeviceError, match="names no python"):
        entry_with(DeviceEntry(name="box", exec="run-agent.sh"), "/v/bin/python")


def test_the_last_check_is_remembered(tmp_path: Path):
    """Its worst line counts; a damaged memory is an empty one."""
    path = tmp_path / "cache" / "checks.json"
    now = datetime(2026, 11, 29, 20, 15, tzinfo=UTC)
    remember("pi5", [Check("agent", "OK", ""), Check("load", "WARN", "")], now=now, path=path)
    remember("rock", [Check("agent", "NOTE", "")], now=now, path=path)
    assert last_checks(path) == {
        "pi5": {"time": "2026-11-29 20:15+00:00", "status": "WARN"},
        "rock": {"time": "2026-11-29 20:15+00:00", "status": "OK"},
    }
    path.write_text("[1")
    assert last_checks(path) == {}
    remember("pi5", [], now=now, path=path / "below")
