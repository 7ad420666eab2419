"""`clean`: what nobody uses goes, what a living session uses stays, and the bytes are right."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.bundle import agent_bundle
from tests.device_agent.bare_agent import Pipe
from tests.device_agent.in_agent import FOLDER, in_agent

MONTH_S = 31 * 86400


class Box:
    """A device with a folder, and bare agents on it.

    Args:
        folder: For everything.
    """

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.cache.mkdir()
        (folder / "tmp").mkdir()
        self.environment = {"TMPDIR": str(folder / "tmp"), "EDGEOPT_CACHE": str(self.cache)}
        self._bundle = agent_bundle(self.cache)
        self._pipes: list[Pipe] = []

    def start(self) -> Pipe:
        self._pipes.append(Pipe(self._bundle, self.environment))
        assert self._pipes[-1].ask("hello", "hello", runtime=False)["ok"]
        return self._pipes[-1]

    def write(self, name: str, size: int, age_s: float) -> Path:
        """A file last used so long ago; in a folder of `files` or `engines`, the folder too."""
        path = self.cache / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        then = time.time() - age_s
        os.utime(path, (then, then))
        if len(Path(name).parts) == 3:
            os.utime(path.parent, (then, then))
        return path

    def close(self) -> None:
        for each in self._pipes:
            each.end()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    made.close()


def test_what_was_not_used_for_a_month_goes(box: Box) -> None:
    """Old models, engines, agents and results; younger ones stay; the bytes are their sizes."""
    old = [
        box.write("agent-0123456789ab.pyz", 10, 7200),
        box.write("blobs/" + "a" * 64, 2000, MONTH_S),
        box.write("engines/old/m.engine", 3000, MONTH_S),
        box.write("results/old.json", 40, 7200),
    ]
    young = [
        box.write("blobs/" + "b" * 64, 2000, 3600),
        box.write("engines/young/m.engine", 3000, 3600),
        box.write("results/young.json", 40, 60),
        box.write("venv-1/python", 1, MONTH_S),
    ]
    # A second name of a blob: only both together free its bytes.
    (box.cache / "files" / "key").mkdir(parents=True)
    second = box.cache / "files" / "key" / "m.onnx"
    os.link(old[1], second)
    os.utime(second.parent, (1, 1))
    found = box.start().ask("1", "clean")
    assert found["ok"], found
    assert found["freed_bytes"] == 5050
    assert not any(path.exists() for path in [*old, second])
    assert all(path.exists() for path in young)
    assert found["removed"] == {"agents": 1, "files": 1, "blobs": 1, "engines": 1, "results": 1}
    assert found["sessions"] == 0


def test_all_is_all_that_no_session_uses(box: Box) -> None:
    """What was used before every living session goes, what was used since the first one stays."""
    before = box.write("engines/before/m.engine", 7, 3600)
    other = box.start()
    digest = hashlib.sha256(b"x" * 5).hexdigest()
    box.write(f"blobs/{digest}", 5, MONTH_S)
    description = {"name": "m.onnx", "size": 5, "digest": digest, "parts": [[digest, 0, 5]]}
    put = other.ask("1", "have", key="c" * 64, files=[description], blobs={digest: 5})
    assert Path(put["place"]).exists()
    during = box.write("engines/during/m.engine", 7, 0)
    found = box.start().ask("1", "clean", everything=True)
    assert (found["sessions"], found["freed_bytes"]) == (1, 7)
    assert not before.exists()
    assert during.exists()
    assert Path(put["place"]).exists()
    other.end()
    found = box.start().ask("2", "clean", everything=True)
    assert (found["sessions"], found["freed_bytes"]) == (1, 12), "that of the first clean-up lives"
    assert list((box.cache / "engines").iterdir()) == []


def test_the_agent_of_a_living_session_stays(box: Box) -> None:
    """An old version that still runs is not taken away under its jobs."""
    session = box.cache / "sessions" / "session-other"
    session.mkdir(parents=True)
    (session / "agent").write_text("agent-0123456789ab.pyz")
    runs = box.write("agent-0123456789ab.pyz", 10, MONTH_S)
    gone = box.write("agent-ba9876543210.pyz", 10, MONTH_S)
    program = f"""
import fcntl, os, subprocess, sys
held = open({str(session / ".alive")!r}, "w")
fcntl.flock(held, fcntl.LOCK_EX)
import clean
answer = clean.clean({str(box.cache)!r}, {{"everything": True}})
"""
    found = in_agent(program)
    assert found["removed"]["agents"] == 1, "one that has just been sent may be about to begin"
    assert runs.exists()
    assert not gone.exists()


def test_a_session_that_could_not_say_its_agent_keeps_them_all(box: Box) -> None:
    """On a full disk nothing could be written down, and that is when one cleans."""
    session = box.cache / "sessions" / "session-other"
    session.mkdir(parents=True)
    (session / "agent").write_text("")
    old = box.write("agent-0123456789ab.pyz", 10, MONTH_S)
    program = f"""
import fcntl
held = open({str(session / ".alive")!r}, "w")
fcntl.flock(held, fcntl.LOCK_EX)
import clean
answer = clean.clean({str(box.cache)!r}, {{"everything": True}})
"""
    assert "agents" not in in_agent(program)["removed"]
    assert old.exists()


def test_it_waits_while_somebody_measures(box: Box) -> None:
    """The board's lock holds for it as for a measurement; the message says who measures."""
    program = f"""
import boardlock
with boardlock.held({str(box.cache)!r}, boardlock.owner("ann", "desk"), 0):
    print("held", flush=True)
    input()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **box.environment, "PYTHONPATH": str(FOLDER)},
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    pipe = box.start()
    message = {"id": "1", "verb": "clean", "deadline_s": 60, "wait_s": 0.2}
    pipe.write(json.dumps(message))
    error = pipe.read()["error"]
    holder.communicate(b"\n")
    assert error["code"] == "board_busy"
    assert "ann at desk" in error["text"]


@pytest.mark.parametrize("days", [-1, "all", True, float("nan")])
def test_days_are_days(box: Box, days: Any) -> None:
    """Anything else is refused, and nothing is removed."""
    kept = box.write("blobs/" + "a" * 64, 5, MONTH_S)
    assert box.start().ask("1", "clean", days=days)["error"]["code"] == "bad_request"
    assert kept.exists()
