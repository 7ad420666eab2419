"""External meters: lines, clocks, and a whole pass with a command that prints a known power."""

import math
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError
from edgeopt.measure.energy import energy_values
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.meter import Clock, Line, MeteredTarget, filled, host_times, metered, parse
from edgeopt.targets.open import open_target
from edgeopt.testing.target_exam import material
from tests.boards.boards import build
from tests.energy.agent_energy import JOB
from tests.energy.simulated import load, reply, windows

_SCRIPT = """
import math, sys, time
print("t_s,watts", flush=True)
while True:
    now = time.monotonic()
    print("%.6f,%.3f" % (now {shift}, 5 + math.sin(2 * math.pi * now)), flush=True)
    time.sleep(0.02)
"""


def command(shift: str = "") -> str:
    """A meter whose clock is off by `shift`."""
    return shlex.join([sys.executable, "-c", _SCRIPT.replace("{shift}", shift)])


def true_j(t0: float, t1: float) -> float:
    """The integral of the power that the script prints."""
    return 5 * (t1 - t0) - (math.cos(2 * math.pi * t1) - math.cos(2 * math.pi * t0)) / (2 * math.pi)


def run(target: Target, folder: Path, **changed: Any) -> Mapping[str, Any]:
    model, feeds = material(folder)
    job = {**JOB, "model": target.put(model), "feeds": target.put(feeds), **changed}
    return target.request("energy", deadline_s=120, **job)


@pytest.mark.parametrize(
    ("text", "stamp", "watts"),
    [
        ("12.5,3.25", 12.5, 3.25),
        ("12.5; 3.25\n", 12.5, 3.25),
        ("12.5 3.25", 12.5, 3.25),
        ("3.25", None, 3.25),
        ("1.7e9,-0.5,extra", 1.7e9, -0.5),
    ],
)
def test_lines_of_a_meter(text: str, stamp: float | None, watts: float) -> None:
    """Comma, semicolon or space; watts alone; more columns are left alone."""
    assert parse(text, 7.0) == Line(arrival_s=7.0, stamp_s=stamp, watts=watts)


@pytest.mark.parametrize("text", ["t_s,watts", "", "nan,3", "1,inf", "12.5,off"])
def test_lines_that_are_none(text: str) -> None:
    """Headers, words and numbers that are none."""
    assert parse(text, 7.0) is None


def lines(stamps: list[float | None]) -> list[Line]:
    """Lines that arrive at 100, 101, ... with delays."""
    return [
        Line(arrival_s=100.0 + k + 0.1 * (k % 3), stamp_s=stamp, watts=1.0)
        for k, stamp in enumerate(stamps)
    ]


def test_stamps_of_every_clock() -> None:
    """Unix time, this host's clock, a clock of its own, none: always this host's instants."""
    steps = [0.0, 1.0, 2.0]
    truth = [100.0, 101.0, 102.0]
    unix = host_times(lines([1.7e9 + s for s in steps]), unix_s=1.7e9 - 100, live=True)
    assert unix == pytest.approx(truth)
    assert host_times(lines([100 + s for s in steps]), unix_s=0, live=True) == truth
    assert host_times(lines([5.0 + s for s in steps]), unix_s=0, live=True) == pytest.approx(truth)
    assert host_times(lines([5.0 + s for s in steps]), unix_s=0, live=False) == [5.0, 6.0, 7.0]
    assert host_times(lines([None] * 3), unix_s=0, live=True) == [100.0, 101.1, 102.2]


@pytest.mark.parametrize("shift", ["", "- 1e6", "+ time.time() - now"])
def test_a_pass_with_a_meter(shift: str, tmp_path: Path) -> None:
    """Whatever clock the meter has, the joules of the windows are right."""
    root = build("raspberry-pi-4", tmp_path / "root")
    with LocalTarget(environment={"EDGEOPT_SYSROOT": str(root)}) as inner:
        target = MeteredTarget(inner, command=command(shift), scope="wall")
        raw = run(target, tmp_path)
    assert raw["ok"], raw
    found = energy_values(raw)
    block = raw["blocks"][0]
    interval = found.values["energy"].interval
    assert interval
    assert interval.contains(true_j(*block["busy"]) / block["runs"])
    assert found.environment["energy_scope"] == "wall"
    assert found.environment["energy_sensor"] == "meter"


def test_a_file_that_something_else_writes(tmp_path: Path) -> None:
    """Recorded stamps of this host's clock; the part of the windows counts."""
    file = tmp_path / "power.csv"
    start = time.monotonic()
    rows = [(start + k * 0.02, 5 + math.sin(2 * math.pi * (start + k * 0.02))) for k in range(6000)]
    file.write_text("t_s,watts\n" + "".join(f"{t:.6f},{w:.4f}\n" for t, w in rows))
    with LocalTarget() as inner:
        raw = run(MeteredTarget(inner, command=str(file), scope="board"), tmp_path)
    block = raw["blocks"][0]
    interval = energy_values(raw).values["energy"].interval
    assert interval
    assert interval.contains(true_j(*block["busy"]) / block["runs"])


def test_a_file_of_another_time(tmp_path: Path) -> None:
    """No reading in the windows: absent, with what to look at."""
    file = tmp_path / "power.csv"
    file.write_text("1.0,5\n2.0,5\n3.0,5\n")
    with LocalTarget() as inner:
        raw = run(MeteredTarget(inner, command=str(file), scope="board"), tmp_path)
    assert "no readings" in energy_values(raw).absent["energy"]


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        ("/nowhere/meter --fast", "cannot be started"),
        (shlex.join([sys.executable, "-c", "print('hello')"]), "ended"),
        (shlex.join([sys.executable, "-c", "import nothing_of_that_name"]), "nothing_of_that_name"),
    ],
)
def test_a_meter_that_does_not_work(meter: str, words: str, tmp_path: Path) -> None:
    """An error of the device with a hint, before anything is run."""
    with LocalTarget() as inner, pytest.raises(DeviceError, match=words) as caught:
        run(MeteredTarget(inner, command=meter, scope="board"), tmp_path)
    assert caught.value.hint
    assert caught.value.exit_code == 3


def test_a_device_with_another_clock() -> None:
    """The host's instants are moved by the offset, and its drift is spread over the pass."""
    blocks = windows(1, 2.0, 5.0)
    raw = reply(load(blocks, 4.0, 9.0), blocks)
    times, rows = raw["samples"]["t_s"], raw["samples"]["values"]
    ahead, drift = 5000.0, 0.002
    pairs = [((t - ahead) / (1 + drift), row[0]) for t, row in zip(times, rows, strict=True)]
    clocks = [
        Clock(host_s=host, offset_s=ahead + drift * host, error_s=0.001)
        for host in (pairs[0][0], pairs[-1][0])
    ]
    found = filled(raw, pairs, (clocks[0], clocks[1]), "board")
    assert found["samples"]["t_s"] == pytest.approx(times)
    assert found["sensor"]["clock_error_s"] == 0.001


def test_a_metered_device_keeps_the_protocol(tmp_path: Path) -> None:
    """Everything but energy goes through; without a meter it is the device itself."""
    with LocalTarget() as inner:
        assert metered(inner, command="", scope="board") is inner
        target = metered(inner, command="anything", scope="board")
        assert isinstance(target, Target)
        assert target.name == inner.name
        assert target.request("hello", deadline_s=60)["ok"]
        model, _ = material(tmp_path)
        assert target.fetch(target.put(model)).samefile(model)


def test_an_entry_with_a_meter_opens_with_it(tmp_path: Path) -> None:
    """And one without is left as it is."""
    for meter, kind in (("", LocalTarget), ("power.csv", MeteredTarget)):
        entry = DeviceEntry(name="here", kind="local", meter=meter, cache_dir=str(tmp_path))
        target = open_target(entry, folder=tmp_path)
        assert isinstance(target, kind)
        target.close()
