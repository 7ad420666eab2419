"""Power modes by name, on a pretended Jetson whose nvpmodel writes what the real one would."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeopt.core.device import DeviceEntry
from edgeopt.errors import DeviceError
from edgeopt.targets.bundle import agent_bundle
from edgeopt.targets.open import open_target

TABLE = """< POWER_MODEL ID=0 NAME=MAXN >
< POWER_MODEL ID=1 NAME=15W >
< POWER_MODEL ID=2 NAME=7W >
< PM_CONFIG DEFAULT=1 >
"""
SUDO = """#!/bin/sh
[ "$1" = -n ] || exit 2
shift
exec "$@"
"""
NVPMODEL = """#!/bin/sh
if [ "$2" = 2 ]; then echo "REBOOT required for changing to this power mode: 2"; exit 0; fi
printf 'pmode:%04d fmode:fanNull' "$2" > "$EDGEOPT_SYSROOT/var/lib/nvpmodel/status"
"""
PATIENCE_S = 60.0


class Board:
    """A fake root, and agents on it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "root", folder / "cache"
        self._agents: list[subprocess.Popen[bytes]] = []
        self._bundle = agent_bundle(folder)
        self.write("etc/nvpmodel.conf", TABLE)
        self.write("var/lib/nvpmodel/status", "pmode:0001 fmode:fanNull")
        for name, text in (("sudo", SUDO), ("nvpmodel", NVPMODEL)):
            self.write(f"bin/{name}", text).chmod(0o755)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def mode(self) -> str:
        return (self.root / "var/lib/nvpmodel/status").read_text().partition(" ")[0]

    @property
    def noted(self) -> bool:
        return (self.cache / "power_mode.json").exists()

    def start(self) -> subprocess.Popen[bytes]:
        environment = {"EDGEOPT_SYSROOT": str(self.root), "EDGEOPT_CACHE": str(self.cache)}
        agent = subprocess.Popen(
            [sys.executable, str(self._bundle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        self._agents.append(agent)
        return agent

    def ask(self, agent: subprocess.Popen[bytes], name: str) -> Any:
        assert agent.stdin
        assert agent.stdout
        request = {"id": "1", "verb": "power_mode", "deadline_s": PATIENCE_S}
        line = json.dumps({**request, "id": os.urandom(4).hex(), "arguments": {"name": name}})
        agent.stdin.write(line.encode() + b"\n")
        agent.stdin.flush()
        while True:
            reply = json.loads(agent.stdout.readline())
            if "ok" in reply:
                return reply

    def close(self) -> None:
        for agent in self._agents:
            agent.kill()
            agent.wait()
            for stream in (agent.stdin, agent.stdout):
                if stream and not stream.closed:
                    stream.close()


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    made = Board(tmp_path)
    yield made
    made.close()


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_mode_lasts_for_the_session(board: Board) -> None:
    """Set by name, noted before, put back when the host is gone."""
    agent = board.start()
    found = board.ask(agent, "MAXN")
    assert (found["ok"], found["before"], found["changed"]) == (True, "15W", True)
    assert board.mode == "pmode:0000"
    assert board.noted
    assert not board.ask(agent, "MAXN")["changed"]
    assert agent.stdin
    agent.stdin.close()
    assert wait_for(lambda: board.mode == "pmode:0001" and not board.noted)


def test_the_next_agent_puts_back_what_a_killed_one_changed(board: Board) -> None:
    """A power cut or a kill leaves the note, and the note is enough."""
    agent = board.start()
    assert board.ask(agent, "MAXN")["changed"]
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    assert board.mode == "pmode:0000"
    board.start()
    assert wait_for(lambda: board.mode == "pmode:0001" and not board.noted)


def test_another_agent_leaves_a_living_ones_mode_alone(board: Board) -> None:
    """Two sessions on a board: the second neither restores nor forgets the first one's note."""
    first = board.start()
    assert board.ask(first, "MAXN")["changed"]
    second = board.start()
    assert not board.ask(second, "MAXN")["changed"]
    assert second.stdin
    second.stdin.close()
    second.wait(PATIENCE_S)
    assert board.mode == "pmode:0000"
    assert board.noted


def test_the_last_of_two_sessions_puts_the_mode_back(board: Board) -> None:
    """A host that came back has a new agent while the old one still ends."""
    old = board.start()
    assert board.ask(old, "MAXN")["changed"]
    new = board.start()
    assert board.ask(new, "MAXN")["ok"]
    assert old.stdin
    old.stdin.close()
    old.wait(PATIENCE_S)
    assert board.mode == "pmode:0000"
    assert new.stdin
    new.stdin.close()
    assert wait_for(lambda: board.mode == "pmode:0001" and not board.noted)


def test_two_sessions_cannot_have_two_modes(board: Board) -> None:
    """The second one is refused while the first one lives."""
    board.write("etc/nvpmodel.conf", TABLE + "< POWER_MODEL ID=3 NAME=10W >\n")
    first, second = board.start(), board.start()
    assert board.ask(first, "MAXN")["changed"]
    assert "another session" in board.ask(second, "10W")["error"]["text"]
    assert board.mode == "pmode:0000"


def test_a_job_that_the_farewell_killed_has_no_result(board: Board) -> None:
    """The mode is put back slowly, the connection ends in the middle of a job: nothing is kept."""
    board.write("bin/nvpmodel", NVPMODEL.replace("#!/bin/sh", "#!/bin/sh\nsleep 0.5")).chmod(0o755)
    agent = board.start()
    assert board.ask(agent, "MAXN")["changed"]
    assert agent.stdin
    assert agent.stdout
    waiting = {"at_most_s": 60, "window_s": 1, "busy_share": 0.0, "below_c": None}
    job = {"id": "cut", "verb": "idle", "deadline_s": PATIENCE_S, "arguments": waiting}
    agent.stdin.write(json.dumps(job).encode() + b"\n")
    agent.stdin.flush()
    assert wait_for(lambda: bool(children_of(agent.pid)))
    agent.stdout.close()
    agent.stdin.close()
    agent.wait(PATIENCE_S)
    assert board.mode == "pmode:0001"
    assert not board.noted
    assert not (board.cache / "results" / "cut.json").exists()


def children_of(pid: int) -> list[str]:
    """Processes whose parent is that one."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for one in lists for child in one.read_text().split()]


@pytest.mark.parametrize(
    ("name", "words"),
    [("30W", "the board has 15W, 7W, MAXN"), ("7W", "needs a reboot")],
)
def test_what_cannot_be_done_is_said(board: Board, name: str, words: str) -> None:
    """An unknown name, and a mode that only a reboot reaches: nothing is changed."""
    agent = board.start()
    error = board.ask(agent, name)["error"]
    assert error["code"] == "power_mode"
    assert words in error["text"]
    assert board.mode == "pmode:0001"
    assert not board.noted


def test_sudo_asks_for_a_password(board: Board) -> None:
    """Refused by sudo -n: the message says what is needed, the mode stays."""
    board.write("bin/sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    error = board.ask(board.start(), "MAXN")["error"]
    assert "a password is required" in error["text"]
    assert board.mode == "pmode:0001"
    assert not board.noted


def test_a_board_without_modes(board: Board) -> None:
    """No table, no modes."""
    (board.root / "etc/nvpmodel.conf").unlink()
    error = board.ask(board.start(), "MAXN")["error"]
    assert "no nvpmodel.conf" in error["text"]


@pytest.mark.parametrize("how", [{"exec": sys.executable}, {}])
def test_an_entry_with_a_mode_is_opened_in_it(board: Board, tmp_path: Path, how: Any) -> None:
    """The mode of the entry while the device is open; refused, the device is not opened."""
    environment = {"EDGEOPT_SYSROOT": str(board.root)}
    entry = DeviceEntry(
        name="jetson",
        kind="local",
        cache_dir=str(board.cache),
        environment=environment,
        power_mode="MAXN",
        **how,
    )
    target = open_target(entry, folder=tmp_path)
    assert board.mode == "pmode:0000"
    target.close()
    assert wait_for(lambda: board.mode == "pmode:0001" and not board.noted)
    with pytest.raises(DeviceError, match="needs a reboot"):
        open_target(replace(entry, power_mode="7W"), folder=tmp_path)
