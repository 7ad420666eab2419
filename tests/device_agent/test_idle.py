"""Waiting for a machine that has nothing to do, or has cooled: on a fake system root."""

import threading
import time
from pathlib import Path
from typing import Any

from edgeopt.targets.local import LocalTarget
from tests.device_agent.in_agent import apart


def root(folder: Path, *, busy: int = 0, millidegrees: int = 50000) -> dict[str, str]:
    """A system of which the processors' counters stand still, and one zone has that heat."""
    stat, zone = folder / "proc/stat", folder / "sys/class/thermal/thermal_zone0/temp"
    for path in (stat, zone):
        path.parent.mkdir(parents=True, exist_ok=True)
    stat.write_text(f"cpu {busy} 0 0 1000 0 0 0 0 0 0\n")
    zone.write_text(f"{millidegrees}\n")
    return {"EDGEOPT_SYSROOT": str(folder)}


def ask(environment: dict[str, str], **arguments: Any) -> dict[str, Any]:
    own = apart(Path(environment["EDGEOPT_SYSROOT"]))
    with LocalTarget(environment={**own, **environment}) as target:
        return dict(target.request("idle", deadline_s=60, **arguments))


def test_an_idle_machine_is_not_waited_for(tmp_path: Path) -> None:
    """One window suffices, and what was seen is told."""
    found = ask(root(tmp_path), at_most_s=30.0, window_s=0.2, busy_share=0.05)
    assert found["idle"]
    assert found["busy_share"] == 0.0
    assert found["temperature_c"] == 50.0
    assert found["waited_s"] < 20.0


def test_a_look_waits_for_nothing(tmp_path: Path) -> None:
    """Without a demand everything is as asked; the share is not watched."""
    found = ask(root(tmp_path), at_most_s=0.0)
    assert found["idle"]
    assert found["busy_share"] is None


def test_a_busy_machine_ends_the_wait(tmp_path: Path) -> None:
    """Counters that rise all the time: after the given time it says how busy it was."""
    environment = root(tmp_path)
    stop = threading.Event()

    def work() -> None:
        ticks = 0
        while not stop.wait(0.02):
            ticks += 1000
            # Written aside and renamed: a reader never sees half of a file.
            aside = tmp_path / "proc/aside"
            aside.write_text(f"cpu {ticks} 0 0 1000 0 0 0 0 0 0\n")
            aside.replace(tmp_path / "proc/stat")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = ask(environment, at_most_s=0.5, window_s=0.3, busy_share=0.05)
    finally:
        stop.set()
        thread.join()
    assert not found["idle"]
    assert found["busy_share"] > 0.05
    assert found["waited_s"] >= 0.5


def test_a_warm_machine_is_waited_for_until_it_is_cool(tmp_path: Path) -> None:
    """It ends when the temperature is there, and not before."""
    environment = root(tmp_path, millidegrees=70000)

    def cool() -> None:
        time.sleep(1.5)
        root(tmp_path, millidegrees=55000)

    thread = threading.Thread(target=cool)
    thread.start()
    found = ask(environment, at_most_s=30.0, below_c=60.0)
    thread.join()
    assert found["idle"]
    assert found["temperature_c"] == 55.0
    warm = ask(root(tmp_path, millidegrees=70000), at_most_s=0.6, below_c=60.0)
    assert not warm["idle"]
    assert warm["temperature_c"] == 70.0


def test_unknown_heat_is_not_waited_for(tmp_path: Path) -> None:
    """A machine without a readable zone does not cost its wait between all rounds."""
    found = ask({"EDGEOPT_SYSROOT": str(tmp_path)}, at_most_s=30.0, below_c=10.0, busy_share=0.0)
    assert found["idle"]
    assert found["temperature_c"] is None
    assert found["waited_s"] < 20.0
