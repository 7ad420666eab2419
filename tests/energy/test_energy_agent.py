"""Whole passes of the real agent on fake boards; the true power is what the files really held."""

import math
import shlex
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from edgeopt.measure.energy import Energy, energy_values
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import material
from tests.boards.boards import build, write
from tests.boards.waveform import Waveform
from tests.energy.agent_energy import JOB, energy_pass
from tests.energy.test_sensors import unprivileged


def wave(mean_w: float, period_s: float = 0.9) -> Callable[[float], float]:
    """A sine of 20 per cent around a mean."""
    return lambda t: mean_w * (1 + 0.2 * math.sin(2 * math.pi * t / period_s))


BOARDS = {
    "jetson-nano": wave(4.0),
    "jetson-orin-nano": wave(8.0),
    "jetson-agx-orin": wave(35.0),
    "jetson-thor": wave(60.0),
    "raspberry-pi-5": wave(4.0, 2.0),
    "x86-n100": wave(9.0),
    "android-arm64": wave(3.0, 6.0),
}


def gross_error(found: Energy, raw: Any, power: Waveform) -> tuple[float, float]:
    """How far gross joules are off, and how far they may be, both as a share of the truth."""
    truth = sum(power.joules(*block["busy"]) / block["runs"] for block in raw["blocks"])
    truth /= len(raw["blocks"])
    value = found.values["energy"]
    assert value.interval
    return abs(value.value - truth) / truth, (value.interval.high - value.value) / truth


@pytest.mark.parametrize("board", BOARDS)
def test_joules_within_their_uncertainty(board: str, tmp_path: Path) -> None:
    """Readings, windows and the sum of it: the true integral lies in the interval."""
    root = build(board, tmp_path / "root")
    slow = {"window_s": 3.0, "idle_s": 1.5} if board == "android-arm64" else {}
    with Waveform(root, board, BOARDS[board]) as power:
        raw = energy_pass(root, tmp_path, **slow)
        assert raw["ok"], raw
        found = energy_values(raw)
    assert "energy" in found.values, found.absent
    error, allowed = gross_error(found, raw, power)
    assert error <= allowed
    assert found.environment["energy_scope"] == raw["sensor"]["scope"]
    times = raw["samples"]["t_s"]
    assert times[0] < raw["blocks"][0]["busy"][0] < raw["blocks"][0]["busy"][1] < times[-1]


@pytest.mark.alone
def test_net_energy_of_a_load_that_follows_the_runs(tmp_path: Path) -> None:
    """Power rises while the agent's children compute: net is gross less what idle costs."""
    root = build("jetson-orin-nano", tmp_path / "root")
    model, feeds = material(tmp_path)
    with LocalTarget(environment={"EDGEOPT_SYSROOT": str(root)}) as target:
        meter = _Activity(target.pid)
        with Waveform(root, "jetson-orin-nano", lambda _: 3.0 + 5.0 * meter.busy()) as power:
            job = {**JOB, "model": str(model), "feeds": str(feeds), "idle_s": 0.8}
            raw = target.request("energy", deadline_s=120, **job)
    assert raw["ok"], raw
    found = energy_values(raw)
    block = raw["blocks"][0]
    idle = [power.watts(*block[key]) for key in ("idle_before", "idle_after")]
    length = block["busy"][1] - block["busy"][0]
    truth = (power.joules(*block["busy"]) - sum(idle) / 2 * length) / block["runs"]
    assert truth > 0
    net = found.values["energy_net"]
    assert net.interval
    assert net.interval.contains(truth)


class _Activity:
    """Whether what an agent started used much of a processor since it was last asked."""

    def __init__(self, agent: int) -> None:
        self._agent = psutil.Process(agent)
        self._spent: dict[int, float] = {}
        self._asked = time.monotonic()

    def busy(self) -> float:
        """1 or 0. The sampler, which computes next to nothing, never counts."""
        now = time.monotonic()
        length, self._asked = now - self._asked, now
        used = 0.0
        for child in self._agent.children():
            try:
                with open(f"/proc/{child.pid}/schedstat") as stream:
                    spent = int(stream.read().split()[0]) * 1e-9
            except (OSError, psutil.Error):
                continue
            used += spent - self._spent.get(child.pid, spent)
            self._spent[child.pid] = spent
        return float(used > 0.2 * length)


def test_a_counter_that_wraps_during_the_pass(tmp_path: Path) -> None:
    """RAPL starts again at its range: nothing is lost, and the environment says it."""
    root = build("x86-n100", tmp_path / "root")
    write(root, "/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "20000000\n")
    with Waveform(root, "x86-n100", wave(9.0)) as power:
        raw = energy_pass(root, tmp_path, counter_window_s=2.5)
    found = energy_values(raw)
    assert int(found.environment["energy_wraps"]) >= 1
    error, allowed = gross_error(found, raw, power)
    assert error <= allowed


def test_rails_that_are_renumbered_in_the_middle(tmp_path: Path) -> None:
    """The driver was loaded again under another number: found by label, and told."""
    root = build("jetson-orin-nano", tmp_path / "root")
    parent = root / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon"

    def move() -> None:
        old = next(parent.iterdir())
        link = root / "sys/class/hwmon" / old.name
        link.unlink()
        old.rename(parent / "hwmon17")
        (root / "sys/class/hwmon/hwmon17").symlink_to(parent / "hwmon17")

    with Waveform(root, "jetson-orin-nano", wave(8.0)):
        timer = _when_sampling(move)
        raw = energy_pass(root, tmp_path, window_s=3.0)
        timer.join()
    kinds = {event["kind"] for event in raw["samples"]["events"]}
    assert "renumbered" in kinds
    found = energy_values(raw)
    assert "energy" in found.values, found.absent
    assert any("renumbered" in reason for reason in found.verdict.reasons)


def _when_sampling(change: Callable[[], None]) -> threading.Thread:
    """Do something a second after a sampler of this process's agent is there."""

    def wait() -> None:
        while not any(
            "sampler.main()" in " ".join(child.cmdline())
            for child in _alive(psutil.Process().children(recursive=True))
        ):
            time.sleep(0.05)
        time.sleep(1.0)
        change()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def _alive(children: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for child in children:
        try:
            child.cmdline()
        except psutil.Error:
            continue
        found.append(child)
    return found


def test_a_battery_that_is_plugged_in_during_the_pass(tmp_path: Path) -> None:
    """Charging from then on: what is left says too little, and the reason is told."""
    root = build("android-arm64", tmp_path / "root")
    status = "/sys/class/power_supply/battery/status"
    with Waveform(root, "android-arm64", wave(3.0, 6.0)):
        timer = _when_sampling(lambda: write(root, status, "Charging\n"))
        raw = energy_pass(root, tmp_path, window_s=6.0, blocks=1)
        timer.join()
    found = energy_values(raw)
    assert not found.values
    assert "external power" in found.absent["energy"]


def test_a_sensor_that_stands_still(tmp_path: Path) -> None:
    """Files that nobody writes: stale, no value."""
    root = build("jetson-orin-nano", tmp_path / "root")
    found = energy_values(energy_pass(root, tmp_path))
    assert found.absent["energy"].startswith("stale")


@pytest.mark.parametrize("board", ["raspberry-pi-4", "generic-arm64"])
def test_no_sensor_costs_no_run(board: str, tmp_path: Path) -> None:
    """The reason comes back at once, as a result."""
    raw = energy_pass(build(board, tmp_path / "root"), tmp_path)
    assert raw["ok"]
    assert raw["sensor"] is None
    assert "meter" in energy_values(raw).absent["energy"]


def test_a_locked_counter_is_a_reason(tmp_path: Path) -> None:
    """RAPL of root only, through the whole agent: absent with what helps."""
    root = build("x86-n100", tmp_path / "root")
    (root / "sys/class/powercap/intel-rapl:0/energy_uj").chmod(0)
    python = tmp_path / "python"
    command = [*unprivileged(), sys.executable]
    python.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    python.chmod(0o755)
    raw = energy_pass(root, tmp_path, python=str(python))
    assert "readable by root only" in energy_values(raw).absent["energy"]


def test_paced_runs_keep_their_rate(tmp_path: Path) -> None:
    """At 20 a second for a second and a bit: as many runs as periods, less those that were late."""
    root = build("jetson-orin-nano", tmp_path / "root")
    with Waveform(root, "jetson-orin-nano", wave(8.0)) as power:
        raw = energy_pass(root, tmp_path, rate_hz=20.0)
    block = raw["blocks"][0]
    assert 0 < block["runs"] <= 24
    found = energy_values(raw, rate_hz=20.0)
    assert set(found.values) == {"paced_energy"}
    value = found.values["paced_energy"]
    assert value.interval
    assert value.interval.contains(power.joules(*block["busy"]) / block["runs"])
    assert found.environment["energy_rate_hz"] == "20"


def test_a_model_that_fails_is_a_result(tmp_path: Path) -> None:
    """A file that is no model, with the phase; and no sampler stays behind."""
    root = build("jetson-orin-nano", tmp_path / "root")
    garbage = tmp_path / "garbage.onnx"
    garbage.write_bytes(b"no model")
    _, feeds = material(tmp_path)
    with LocalTarget(environment={"EDGEOPT_SYSROOT": str(root)}) as target:
        job = {**JOB, "model": str(garbage), "feeds": str(feeds)}
        raw = target.request("energy", deadline_s=60, **job)
        assert raw["error"]["code"] == "load_failed"
        assert raw["error"]["phase"] == "load candidate"
        assert not psutil.Process(target.pid).children(recursive=True)
