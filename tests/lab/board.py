"""Devices of the lab: each a real sshd with a home of its own, behind a wire."""

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from tests.lab import openssh
from tests.lab.openssh import LAB, USER, Settings, Sshd
from tests.lab.wire import Wire

ARM64_PYTHON = LAB / "arm64/root/usr/bin/python3"
# Opens a device by its entry, and closes it when the test ends; see `conftest.reach`.
Reach = Callable[..., Target]
_MARK = "EDGEOPT_LAB_BOARD"


@dataclass(frozen=True)
class Process:
    """A process on a board."""

    pid: int
    command: str


class Board:
    """One device: its server, its home, the wire to it.

    Args:
        name: Of the host in the client's configuration, and of the device.
        folder: For its files.
        key: The client's key, that may log in.
        options: Further lines of the server's configuration.
        environment: Further variables of its sessions.
        mounts: Arguments of `mount` that only this board sees (needs root).
        entry: Further keys of the device entry; `python` is this environment's where left out.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        key: Path,
        *,
        options: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        mounts: Sequence[Sequence[str]] = (),
        entry: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        (folder / "tmp").mkdir()
        self.mark = uuid.uuid4().hex
        variables = {
            "HOME": str(self.home),
            # Boards lock a file there while they measure, and these are all on one machine.
            "TMPDIR": str(folder / "tmp"),
            "OMP_NUM_THREADS": "1",
            _MARK: self.mark,
            **(environment or {}),
        }
        self.sshd = Sshd(
            folder,
            Settings(
                authorized=[openssh.public(key)],
                environment=variables,
                options=options or {},
                mounts=mounts,
            ),
        )
        self.wire = Wire(self.sshd.port)
        keys = dict(entry or {})
        if "exec" not in keys:
            keys.setdefault("python", sys.executable)
        self.entry = DeviceEntry(name=name, host=name, origin="the lab", **keys)

    @property
    def cache(self) -> Path:
        """The agent's folder on the board, as seen from this machine."""
        return Path(self.entry.cache_dir or self.home / ".cache" / "edgeopt")

    def processes(self) -> list[Process]:
        """What runs on the board now: everything that its sessions started, however deep."""
        found, mark = [], f"{_MARK}={self.mark}".encode()
        for place in Path("/proc").iterdir():
            if not place.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    words = (place / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(Process(int(place.name), words.decode(errors="replace").strip()))
        return [each for each in found if each.command]

    def quiet(self, patience_s: float = 30.0) -> bool:
        """Whether, given a moment, nothing is left running on the board."""
        return openssh.wait_for(lambda: not self.processes(), patience_s)

    def kill(self, sign: int = signal.SIGKILL) -> int:
        """Signal everything that runs on the board; how many that were."""
        running = self.processes()
        for each in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, sign)
        return len(running)

    def close(self) -> None:
        """Take the board away, with all that runs on it."""
        self.wire.close()
        self.sshd.stop()
        while self.kill():
            openssh.wait_for(lambda: not self.processes(), 1.0)


class Network:
    """Boards, the client's keys, and the ssh configuration that reaches them.

    Args:
        folder: For all files. Keep it short: the path of a socket has about 100 letters.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        self.key = openssh.make_key(folder / "key")
        self.boards: dict[str, Board] = {}
        self._lines: dict[str, dict[str, str]] = {}
        self._agents: list[openssh.Agent] = []
        self.known_hosts.touch()

    def board(self, name: str, *, known: bool = True, **arguments: Any) -> Board:
        """A new board, whose host key the client knows, unless told otherwise."""
        board = Board(name, self.folder / name, self.key, **arguments)
        self.boards[name] = board
        if known:
            self.trust(board)
        self.client(name)
        return board

    def trust(self, board: Board) -> None:
        """Let the client know the board's host key."""
        with self.known_hosts.open("a") as stream:
            stream.write(f"{board.name} {openssh.public(board.sshd.host_key)}\n")

    def client(self, name: str, **lines: str) -> None:
        """Write the configuration, with these lines of a host changed; an empty one is left out."""
        board = self.boards[name]
        self._lines[name] = {
            "HostName": "127.0.0.1",
            "Port": str(board.wire.port),
            "User": USER,
            "HostKeyAlias": name,
            "IdentityFile": f'"{self.key}"',
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "GlobalKnownHostsFile": "none",
            **lines,
        }
        text = ""
        for host, found in self._lines.items():
            text += f"Host {host}\n"
            text += "".join(f"  {key} {value}\n" for key, value in found.items() if value)
        self.config.write_text(text)

    def agent(self, *keys: Path) -> openssh.Agent:
        """A new ssh-agent with these keys."""
        self._agents.append(openssh.Agent(self.folder, *keys))
        return self._agents[-1]

    def devices_file(self) -> Path:
        """Write the boards down as a user would."""
        text = ""
        for name, board in self.boards.items():
            text += f"[devices.{name}]\n"
            for key in ("host", "python", "exec", "cache_dir"):
                if value := getattr(board.entry, key):
                    text += f"{key} = {json.dumps(value)}\n"
            pairs = (f"{k} = {json.dumps(v)}" for k, v in board.entry.environment.items())
            text += "environment = { " + ", ".join(pairs) + " }\n\n"
        path = self.folder / "devices.toml"
        path.write_text(text)
        return path

    @property
    def environment(self) -> dict[str, str]:
        """What edgeopt needs to be told to use this network."""
        return {
            "EDGEOPT_SSH_CONFIG": str(self.config),
            "EDGEOPT_DEVICES": str(self.folder / "devices.toml"),
            "XDG_RUNTIME_DIR": str(self.folder),
        }

    def close(self) -> None:
        """Take everything away."""
        for board in self.boards.values():
            board.close()
        for agent in self._agents:
            agent.stop()
