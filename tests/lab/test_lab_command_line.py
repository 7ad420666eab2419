"""The command line against a real sshd: what it measures, and how it ends when it cannot."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import DIGITS, Finished
from tests.lab import openssh
from tests.lab.board import Network

pytestmark = pytest.mark.lab

Edgeopt = Callable[..., Finished]


@pytest.fixture
def edgeopt(edgeopt_here: Edgeopt) -> Edgeopt:
    """In this process; ssh and the board's agents have their own."""
    return edgeopt_here


@pytest.fixture
def home(network: Network, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of edgeopt's own: what one test learned of a board another does not know."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(network.folder / "cache"))
    return network.folder / "cache"


def ends_well(done: Finished, code: int) -> bool:
    """Whether it ended with that code, and without a trace of Python."""
    return done.code == code and "Traceback" not in done.out + done.err


def test_measures_over_ssh(network: Network, home: Path, edgeopt: Edgeopt) -> None:
    """`measure --device` with a name of the devices file: a latency, and exit code 0."""
    board = network.board("lab-ssh")
    network.devices_file()
    command = ["measure", DIGITS / "digits.onnx", "--device", "lab-ssh", "--protocol", "quick"]
    done = edgeopt(*command, "--json")
    assert ends_well(done, 0), done
    assert json.loads(done.out)
    assert "latency" in done.out
    assert board.quiet()


def test_check_says_what_is_wrong(network: Network, home: Path, edgeopt: Edgeopt) -> None:
    """`device check` of a board whose host key is unknown: a failed line with its cure."""
    network.board("stranger", known=False)
    network.devices_file()
    done = edgeopt("device", "check", "stranger")
    assert ends_well(done, 3), done
    assert "host key" in done.out + done.err
    assert "ssh stranger" in done.out + done.err


@pytest.mark.parametrize("command", ["measure", "run"])
def test_board_that_is_off(network: Network, home: Path, edgeopt: Edgeopt, command: str) -> None:
    """A board that is off: exit code 3, what and where and what next, no trace."""
    board = network.board("off")
    board.wire.close()
    network.devices_file()
    extra = ["--data", DIGITS / "digits.npz", "--budget", "1m"] if command == "run" else []
    done = edgeopt(command, DIGITS / "digits.onnx", "--device", "off", *extra)
    assert ends_well(done, 3), done
    assert "off" in done.err
    assert "refused" in done.err


def test_python_missing(network: Network, home: Path, edgeopt: Edgeopt) -> None:
    """No interpreter on the board: exit code 3, and what to write into the devices file."""
    network.board("bare", entry={"python": "/nowhere/python3"})
    network.devices_file()
    done = edgeopt("measure", DIGITS / "digits.onnx", "--device", "bare")
    assert ends_well(done, 3), done
    assert "/nowhere/python3" in done.err


@pytest.mark.slow
def test_killed_run_goes_on(network: Network, home: Path, edgeopt: Edgeopt, tmp_path: Path) -> None:
    """kill -9 of a run in the middle: nothing stays on the board, no finished trial is lost.

    Slow: two runs of a search.
    """
    board = network.board("lab-ssh")
    network.devices_file()
    out = tmp_path / "report"
    words = ["run", DIGITS / "digits.onnx", "--data", DIGITS / "digits.npz"]
    words += ["--device", "lab-ssh", "--trials", "6", "--out", out, "--seed", "1"]
    first = subprocess.Popen(
        [sys.executable, "-m", "edgeopt", *map(str, words)],
        cwd=tmp_path,
        env={**os.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert openssh.wait_for(lambda: trials(tmp_path) >= 2, 300.0), "two trials are measured"
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert board.quiet(60.0), board.processes()
    before = trials(tmp_path)
    assert before >= 2
    done = edgeopt(*words)
    assert ends_well(done, 0), done
    assert trials(tmp_path) >= before, "what was measured before is still there"
    assert (out / "report.html").is_file()


def trials(folder: Path) -> int:
    """How many trials the store in a folder holds."""
    for path in folder.rglob("trials.sqlite"):
        store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        with contextlib.closing(store), contextlib.suppress(sqlite3.Error):
            return int(store.execute("select count(*) from trial").fetchone()[0])
    return 0
