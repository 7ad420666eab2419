"""Two sessions at once only where the memory suffices; else in turn, in the same order."""

from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import bench_job, material
from tests.device_agent.in_agent import apart, in_agent

MB = 1 << 20


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return material(tmp_path_factory.mktemp("memory"))


def system(folder: Path, available: int, **group: int | str) -> dict[str, str]:
    """A system with so much memory available, and a control group."""
    files = {"proc/meminfo": f"MemTotal: 9000000 kB\nMemAvailable: {available // 1024} kB\n"}
    files |= {f"sys/fs/cgroup/memory.{name}": f"{value}\n" for name, value in group.items()}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"EDGEOPT_SYSROOT": str(folder)}


def bench(place: tuple[Path, Path], environment: dict[str, str], **changed: Any) -> dict[str, Any]:
    job = bench_job(*map(str, place), **changed)
    with LocalTarget(environment={**apart(place[0].parent), **environment}) as target:
        return dict(target.request("bench", deadline_s=120, **job))


@pytest.mark.parametrize(("each", "together"), [(30 * MB, True), (60 * MB, False), (None, True)])
def test_memory_decides(
    place: tuple[Path, Path], tmp_path: Path, each: int | None, together: bool
) -> None:
    """100 MB are there: twice 30 fit with a quarter to spare, twice 60 do not; unknown is tried."""
    needs = {"candidate": each, "baseline": each}
    reply = bench(place, system(tmp_path, 100 * MB), needs_bytes=needs)
    assert reply["ok"]
    assert reply["together"] is together


def test_sessions_in_turn_give_the_same_blocks(place: tuple[Path, Path]) -> None:
    """Each block has a session of its own, warmed up; the first of each side counts as its load."""
    reply = bench(place, {}, together=False, pairs=3)
    assert reply["together"] is False
    for side in ("candidate", "baseline"):
        assert len(reply[side]["blocks"]) == 3
        assert reply[side]["warmup"]["runs"] >= 9
        assert reply[side]["warmup"]["settled"] in (True, False)
    assert (reply["candidate"]["opened"], reply["baseline"]["opened"]) == (0, 1)


def test_the_order_stays_a_b_b_a(tmp_path: Path) -> None:
    """Opened, warmed, timed, closed, and only then the next."""
    program = """
import sides
class Side:
    def __init__(self, name): self.name = name
    def open(self, position): log.append("open %s" % self.name)
    def warm_up(self): log.append("warm %s" % self.name)
    def measure(self, run): log.append("time %s" % self.name)
    def close(self): log.append("close %s" % self.name)
log = []
sides.alternate([Side("A"), Side("B")], 2, None, {together})
answer = log
"""
    in_turn = in_agent(program.format(together=False))
    words = ("open", "warm", "time", "close")
    assert in_turn == [f"{word} {name}" for name in "ABBA" for word in words]
    at_once = in_agent(program.format(together=True))
    assert at_once[:4] == ["open A", "open B", "warm A", "warm B"]
    assert at_once[4:] == [f"time {name}" for name in "ABBA"]


def test_a_control_group_counts(tmp_path: Path) -> None:
    """What the group may still take, file pages that nothing uses included, is all there is."""
    environment = system(
        tmp_path,
        4000 * MB,
        max=600 * MB,
        current=500 * MB,
        stat=f"anon 1\ninactive_file {50 * MB}",
    )
    program = "import machine; answer = machine.available_bytes()"
    assert in_agent(program, **environment) == 150 * MB
    without = system(tmp_path / "other", 4000 * MB, max="max", current=500 * MB)
    assert in_agent(program, **without) == 4000 * MB
    assert in_agent(program, EDGEOPT_SYSROOT=str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        (
            {
                "proc/self/cgroup": "0::/user.slice/job.scope",
                "sys/fs/cgroup/user.slice/memory.max": str(300 * MB),
                "sys/fs/cgroup/user.slice/memory.current": str(250 * MB),
                "sys/fs/cgroup/user.slice/job.scope/memory.max": str(900 * MB),
                "sys/fs/cgroup/user.slice/job.scope/memory.current": str(100 * MB),
            },
            50,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/docker/x\n0::/",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": str(700 * MB),
                "sys/fs/cgroup/memory/memory.usage_in_bytes": str(650 * MB),
                "sys/fs/cgroup/memory/memory.stat": f"cache 1\ntotal_inactive_file {20 * MB}",
            },
            70,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": str(2**63 - 4096),
                "sys/fs/cgroup/memory/memory.usage_in_bytes": str(650 * MB),
            },
            4000,
        ),
        (
            {
                "proc/self/cgroup": "0::/",
                "sys/fs/cgroup/memory.max": str(100 * MB),
                "sys/fs/cgroup/memory.current": str(130 * MB),
            },
            0,
        ),
    ],
    ids=["nested", "version 1 in a container", "version 1 without a limit", "above its limit"],
)
def test_groups_of_both_versions(files: dict[str, str], megabytes: int, tmp_path: Path) -> None:
    """The tightest of all groups around the process decides."""
    environment = system(tmp_path, 4000 * MB)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    program = "import machine; answer = machine.available_bytes()"
    assert in_agent(program, **environment) == megabytes * MB


def test_the_footprint_says_what_there_was(place: tuple[Path, Path], tmp_path: Path) -> None:
    """Free memory and the machine's state before anything began."""
    model, feeds = map(str, place)
    with LocalTarget(environment={**apart(tmp_path), **system(tmp_path, 100 * MB)}) as target:
        reply = target.request(
            "footprint", deadline_s=120, model=model, feeds=feeds, settings={"threads": 1}
        )
    assert reply["available_bytes"] == 100 * MB
    assert {"throttle", "gpu_busy", "temperature_c"} <= reply["before"].keys()
