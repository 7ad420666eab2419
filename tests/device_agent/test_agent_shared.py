"""One board, several hosts: the lock, signs of life, results that outlive a connection."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.bundle import agent_bundle
from edgeopt.testing.target_exam import bench_job, material
from tests.device_agent.bare_agent import Pipe, children, gone, wait_for


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_bundle(tmp_path_factory.mktemp("agent"))


@pytest.fixture
def agent(bundle: Path, tmp_path: Path) -> Iterator[Callable[..., Pipe]]:
    """Starts agents of one board: they share folders. All are ended after the test."""
    made: list[Pipe] = []
    (tmp_path / "tmp").mkdir()
    shared = {"TMPDIR": str(tmp_path / "tmp"), "EDGEOPT_CACHE": str(tmp_path / "cache")}

    def start(**environment: str) -> Pipe:
        made.append(Pipe(bundle, {**shared, **environment}))
        return made[-1]

    yield start
    for each in made:
        each.end()


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    model, feeds = material(tmp_path)
    return bench_job(str(model), str(feeds))


def ask_busy(pipe: Pipe, job: dict[str, Any], wait_s: float) -> Any:
    message = {"id": "b", "verb": "bench", "wait_s": wait_s, "arguments": job}
    pipe.write(json.dumps({**message, "deadline_s": 60.0}))
    return pipe.read()


def test_one_measures_at_a_time(agent: Callable[..., Pipe], job: dict[str, Any]) -> None:
    """While one measures another is told who, and measures when the first was killed."""
    first, second = agent(), agent()
    first.ask("1", "hello", user="alice", host="desk", runtime=False)
    first.send("2", "bench", 600.0, **{**job, "min_seconds": 120.0})
    assert wait_for(lambda: children(first.process.pid))
    error = ask_busy(second, job, 0.3)["error"]
    assert error["code"] == "board_busy"
    assert "alice at desk" in error["text"]
    assert str(first.process.pid) in error["text"]
    first.process.kill()
    assert second.ask("3", "bench", **job)["ok"], "the kernel released the lock"


def test_a_lock_file_from_elsewhere(
    agent: Callable[..., Pipe], job: dict[str, Any], tmp_path: Path
) -> None:
    """Garbage in the file is not shown, and a file that nobody holds is no obstacle."""
    place = tmp_path / "tmp" / "edgeopt-board.lock"
    place.write_bytes(b'{"user": "\x1b[31m", "host": 3')
    pipe = agent()
    with place.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "somebody else" in ask_busy(pipe, job, 0.2)["error"]["text"]
    assert pipe.ask("2", "bench", **job)["ok"]


def test_a_link_in_place_of_the_lock(
    agent: Callable[..., Pipe], job: dict[str, Any], tmp_path: Path
) -> None:
    """A symbolic link in the shared folder is not followed: what it leads to stays as it was."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "tmp" / "edgeopt-board.lock").symlink_to(victim)
    assert agent().ask("1", "bench", **job)["ok"]
    assert victim.read_text() == "precious"


def test_what_does_not_measure_does_not_wait(
    agent: Callable[..., Pipe], job: dict[str, Any]
) -> None:
    """Facts are told while another host measures."""
    first, second = agent(), agent()
    first.send("1", "bench", 600.0, **{**job, "min_seconds": 120.0})
    assert wait_for(lambda: children(first.process.pid))
    assert second.ask("2", "probe")["ok"]


def test_signs_of_life(agent: Callable[..., Pipe], job: dict[str, Any]) -> None:
    """A job of more than six seconds shows at least one beat."""
    pipe = agent()
    assert pipe.ask("1", "bench", **{**job, "min_seconds": 1.5})["ok"]
    assert pipe.beats >= 1


def test_silence_of_the_host_ends_the_agent(
    agent: Callable[..., Pipe], job: dict[str, Any]
) -> None:
    """A network that is gone closes no pipe: without a line for so long, agent and job end."""
    pipe = agent()
    pipe.ask("1", "hello", runtime=False, patience_s=2.0)
    pipe.send("2", "bench", 600.0, **{**job, "min_seconds": 120.0})
    assert wait_for(lambda: children(pipe.process.pid))
    child = children(pipe.process.pid)[0]
    assert wait_for(lambda: pipe.process.poll() is not None and gone(child))


def test_a_result_outlives_its_agent(agent: Callable[..., Pipe], job: dict[str, Any]) -> None:
    """The next agent knows the reply of the job, and of no other; files that went are said."""
    first = agent()
    reply = first.ask("j1", "bench", **job)
    alone = {"model": job["candidate"], "feeds": job["feeds"], "settings": job["settings"]}
    assert first.ask("j2", "infer", **alone)["ok"]
    assert first.ask("q", "result", job="j2")["state"] == "done"
    first.ask("end", "bye")
    second = agent()
    found = second.ask("1", "result", job="j1")
    assert found["state"] == "done"
    assert {**found["reply"], "id": "j1"} == reply
    assert second.ask("2", "result", job="j2")["state"] == "unknown"
    assert second.ask("3", "result", job="other")["state"] == "unknown"
    assert second.ask("4", "result", job="../../etc/passwd")["state"] == "unknown"


def test_a_job_under_way_is_seen(agent: Callable[..., Pipe], job: dict[str, Any]) -> None:
    """Another agent sees that a job runs, and that it does not any more after a kill."""
    first, second = agent(), agent()
    first.send("long", "bench", 600.0, **{**job, "min_seconds": 120.0})
    assert wait_for(lambda: children(first.process.pid))
    assert second.ask("1", "result", job="long")["state"] == "running"
    first.process.kill()
    assert wait_for(
        lambda: second.ask(os.urandom(4).hex(), "result", job="long")["state"] == "unknown"
    )


def test_cut_off_while_receiving(bundle: Path, tmp_path: Path) -> None:
    """Half a blob leaves nothing; a whole one with another digest is refused."""
    environment = {**os.environ, "EDGEOPT_CACHE": str(tmp_path / "cache")}
    for data, told in ((b"half", b""), (b"wrong" * 20, b"not those that were sent")):
        header = json.dumps([["0" * 64, 100]]).encode() + b"\n"
        done = subprocess.run(
            [sys.executable, str(bundle), "--receive"],
            input=header + data,
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert told in done.stdout
        assert list((tmp_path / "cache" / "blobs").iterdir()) == []


def test_parts_of_killed_receivers_are_swept(agent: Callable[..., Pipe], tmp_path: Path) -> None:
    """kill -9 in the middle leaves a part; a later agent removes it, but none that is written."""
    blobs = tmp_path / "cache" / "blobs"
    blobs.mkdir(parents=True)
    dead, alive = blobs / ".part-1", blobs / ".part-2"
    for each in (dead, alive):
        each.write_bytes(b"half")
        os.utime(each, (1, 1))
    with alive.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert agent().ask("1", "hello", runtime=False)["ok"]
        assert (dead.exists(), alive.exists()) == (False, True)


def test_process_numbers_do_not_count(agent: Callable[..., Pipe], tmp_path: Path) -> None:
    """In a container the numbers are others: a lock says who lives, whatever its folder is called.

    A folder whose name has the number of a living process, but no lock, is a dead agent's once it
    is a day old; one that is held stays, though it is that old and its number is nobody's.
    """
    work = tmp_path / "cache" / "work"
    dead, held = work / f"edgeopt-agent-{os.getpid()}-dead", work / "edgeopt-agent-999999999-held"
    for each in (dead, held):
        each.mkdir(parents=True)
    (held / ".alive").touch()
    for each in (dead, held):
        os.utime(each, (1, 1))
    with (held / ".alive").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pipe = agent()
        assert pipe.ask("1", "hello", runtime=False)["ok"]
        assert (dead.exists(), held.exists()) == (False, True)
        (mine,) = [path for path in work.iterdir() if path != held]
        assert agent().ask("1", "hello", runtime=False)["ok"]
        assert mine.exists()
    pipe.end()
    os.utime(mine, (1, 1))
    assert agent().ask("1", "hello", runtime=False)["ok"]
    assert not mine.exists()
    assert not held.exists()
