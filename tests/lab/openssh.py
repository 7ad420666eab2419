"""Real OpenSSH servers and clients on this machine, with keys, hosts and users of their own.

As root the server runs in a mount namespace of its own: it finds its privilege-separation user
and folder there, and small or read-only file systems can stand in for a board's without touching
this machine's.
"""

import contextlib
import getpass
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAB = Path(__file__).resolve().parents[2] / ".lab"
USER = getpass.getuser()
PATIENCE_S = 60.0
_PRIVATE_USER = "sshd"
_PRIVATE_FOLDER = Path("/run/sshd")


def lacking(part: str) -> str:
    """Why a part of `.lab` is not there; empty where it is."""
    missing = LAB / f"{part}.missing"
    if missing.is_file():
        return missing.read_text().strip()
    return "" if (LAB / f"{part}.done").is_file() else f"no {part} in .lab: run `make lab`"


def lacks_ssh() -> str:
    """Why no server can be run here; empty where one can."""
    for program in ("ssh", "ssh-keygen", "ssh-agent", "ssh-add"):
        if not shutil.which(program):
            return f"no {program} on this machine: install an OpenSSH client"
    return lacking("sshd") or ("" if _plain() or can_mount() else "root without mount namespaces")


def can_mount() -> bool:
    """Whether file systems can be mounted where only the lab sees them."""
    words = ["unshare", "--mount", "true"]
    return (
        not os.geteuid() and not subprocess.run(words, check=False, capture_output=True).returncode
    )


def _plain() -> bool:
    """Whether a server starts without a namespace."""
    if os.geteuid():
        return True
    with contextlib.suppress(KeyError):
        pwd.getpwnam(_PRIVATE_USER)
        return _PRIVATE_FOLDER.is_dir()
    return False


def make_key(path: Path) -> Path:
    """A new key pair; the private half's path."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(words, check=True, timeout=PATIENCE_S)
    return path


def public(key: Path) -> str:
    """The public half: type and key."""
    return " ".join(key.with_name(key.name + ".pub").read_text().split()[:2])


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition, patience_s: float = PATIENCE_S) -> bool:
    """Whether a condition came true in time."""
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a server is like.

    Args:
        authorized: Public keys that may log in.
        environment: Variables of every session; HOME as well.
        options: Further lines of its configuration (`ForceCommand`, `MaxSessions`, ...).
        mounts: Arguments of `mount` in the server's own namespace; needs root.
    """

    authorized: Sequence[str]
    environment: Mapping[str, str]
    options: Mapping[str, str]
    mounts: Sequence[Sequence[str]] = ()


class Sshd:
    """A running server on loopback.

    Args:
        folder: For its keys, configuration and log.
        settings: What it is like.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._settings = settings
        self.host_key = make_key(folder / "host_key")
        self.port = free_port()
        self.log = folder / "sshd.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Listen; returns when connections are accepted."""
        config = self._folder / "sshd_config"
        config.write_text(self._config())
        server, libraries = _server()
        words = [server, "-D", "-e", "-f", str(config)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._in_namespace(words),
                env={**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not wait_for(lambda: _listens(self.port) or self._process.poll() is not None):
            raise RuntimeError(f"sshd does not listen: {self.log.read_text()}")
        if self._process.poll() is not None:
            raise RuntimeError(f"sshd ended: {self.log.read_text()}")

    def stop(self) -> None:
        """End the server and every connection, as a power cut does (sessions' processes stay)."""
        if self._process is None:
            return
        for pid in [*descendants(self._process.pid), self._process.pid]:
            if _name(pid) == "sshd":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def new_host_key(self) -> None:
        """Come back with another identity, as a board does that was set up anew."""
        self.stop()
        self.host_key.unlink()
        make_key(self.host_key)
        self.start()

    def _config(self) -> str:
        authorized = self._folder / "authorized_keys"
        authorized.write_text("".join(f"{key}\n" for key in self._settings.authorized))
        variables = " ".join(f'"{k}={v}"' for k, v in self._settings.environment.items())
        lines = {
            "ListenAddress": f"127.0.0.1:{self.port}",
            "HostKey": f'"{self.host_key}"',
            "PidFile": "none",
            "AuthorizedKeysFile": f'"{authorized}"',
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "yes",
            "PrintMotd": "no",
            "UseDNS": "no",
            "MaxStartups": "100",
            "LogLevel": "VERBOSE",
            "SetEnv": variables,
            **self._settings.options,
        }
        return "".join(f"{key} {value}\n" for key, value in lines.items() if value)

    def _in_namespace(self, words: Sequence[str]) -> list[str]:
        if _plain() and not self._settings.mounts:
            return list(words)
        accounts = self._folder / "passwd"
        text = Path("/etc/passwd").read_text()
        if f"\n{_PRIVATE_USER}:" not in text:
            text += f"{_PRIVATE_USER}:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        accounts.write_text(text)
        empty = self._folder / "run"
        (empty / "sshd").mkdir(parents=True, exist_ok=True)
        mounts = [
            ["--bind", str(accounts), "/etc/passwd"],
            ["--bind", str(empty), str(_PRIVATE_FOLDER.parent)],
            *self._settings.mounts,
        ]
        script = " && ".join(shlex.join(["mount", *each]) for each in mounts)
        command = f"{script} && exec {shlex.join(words)}"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", command]


class Agent:
    """A running ssh-agent that holds keys."""

    def __init__(self, folder: Path, *keys: Path) -> None:
        self.socket = folder / "agent"
        self._process = subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(self.socket)], stdout=subprocess.DEVNULL
        )
        if not wait_for(self.socket.exists):
            raise RuntimeError("ssh-agent does not answer")
        for key in keys:
            environment = {**os.environ, "SSH_AUTH_SOCK": str(self.socket)}
            subprocess.run(["ssh-add", "-q", str(key)], env=environment, check=True)

    def stop(self) -> None:
        """End it, and forget the keys."""
        self._process.terminate()
        self._process.wait()


def descendants(pid: int) -> list[int]:
    """Processes below one, the deepest first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found[::-1]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip().partition("-")[0]
    except OSError:
        return ""


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _server() -> tuple[str, str]:
    """The server's absolute path, and the folders of libraries that came with it."""
    installed = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if installed:
        return installed, ""
    folder = LAB / "sshd"
    libraries = sorted({str(each.parent) for each in folder.rglob("lib*.so.*")})
    return str(folder / "usr/sbin/sshd"), ":".join(libraries)
