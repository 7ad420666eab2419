"""How a command is started on a device: here, or through the system's OpenSSH.

This is the only file that starts `ssh`. The user's configuration, agent, keys and jump hosts are
honoured because it is their own ssh that runs, called by the host name as they gave it.
`EDGEOPT_SSH` names another ssh program, `EDGEOPT_SSH_CONFIG` another configuration file.
"""

import os
import shlex
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from edgeopt.errors import DeviceError
from edgeopt.targets import ssh_failures

_CHECK_S = 30.0
_SOCKET_PATH = 108
_SOCKET_NAME = 60  # The digest of %C, and what ssh appends while it makes the socket.
_SSH_FAILED = 255


class Connection(Protocol):
    """Starts commands on one device."""

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], *, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a command with pipes at its stdin and stdout, its stderr in `log`.

        A first word that begins with `~/` lies in the home directory there. `log` is a file,
        not a pipe: a connection that outlives its first command keeps stderr open.

        Raises:
            DeviceError: The command, or the ssh that carries it, cannot be started.
        """
        ...

    def failure(self, code: int, log: str) -> DeviceError | None:
        """The connection's own failure behind an exit code and stderr; None for the command's."""
        ...

    def describe(self) -> str:
        """Where commands run, for messages."""
        ...

    def reset(self) -> None:
        """Forget what may hang, after silence: the next start connects anew."""
        ...

    def close(self) -> None:
        """Nothing will be started any more."""
        ...


class LocalConnection:
    """Commands on this machine, each in a session of its own (Ctrl-C does not reach it)."""

    def __init__(self, name: str = "local") -> None:
        self._name = name

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], *, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a command. Raises `DeviceError` where that is impossible."""
        words = [os.path.expanduser(argv[0]), *argv[1:]]
        try:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(
                f"the agent cannot be started: {error.strerror or error}",
                where=f"{self._name} ({argv[0]})",
                hint="name a Python with numpy and onnxruntime",
            ) from error

    def failure(self, code: int, log: str) -> DeviceError | None:
        """None: there is no connection that could fail."""
        return None

    def describe(self) -> str:
        """Where commands run."""
        return self._name

    def reset(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is open."""


class SshConnection:
    """Commands over the system's OpenSSH, which never asks and never accepts a host key.

    A live master connection of the user is used as it is (a jump host with a second factor
    works once they are logged in). Otherwise the first command opens a master of our own, which
    ends a minute after the last command.

    Args:
        host: As `ssh` takes it: an alias, a name, `user@name`.
        name: Of the device, for messages.
        connect_s: Time limit of connecting.
        program: The ssh program; empty is `EDGEOPT_SSH`, else `ssh`.
        config: A configuration file; empty is `EDGEOPT_SSH_CONFIG`, else the user's own.

    Raises:
        DeviceError: There is no ssh here, or its configuration is wrong.
    """

    def __init__(
        self,
        host: str,
        *,
        name: str = "",
        connect_s: int = 10,
        program: str = "",
        config: str = "",
    ) -> None:
        self._host = host
        self._name = name or host
        self._connect_s = connect_s
        self._program = program or os.environ.get("EDGEOPT_SSH") or "ssh"
        file = config or os.environ.get("EDGEOPT_SSH_CONFIG", "")
        self._base = [self._program, *(["-F", file] if file else [])]
        self._facts: dict[str, list[str]] | None = None
        self._multiplexing: list[str] | None = None

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], *, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a command there. Raises `DeviceError` where ssh cannot be started."""
        command = [*self._base, *self._options(), "--", self._host]
        command.append(remote_command(argv, environment))
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise self._no_ssh(error) from error

    def failure(self, code: int, log: str) -> DeviceError | None:
        """What ssh's exit code 255 and its words mean; None for another exit code."""
        if code != _SSH_FAILED:
            return None
        if ssh_failures.hides_reason(log, self._resolved()):
            log = self._reason() or log
        return ssh_failures.explain(
            log, host=self._host, where=self.describe(), facts=self._resolved()
        )

    def _reason(self) -> str:
        """What ssh and the ssh to the jump host say on a connection that is not shared."""
        alone = ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        command = [*self._base, *alone, *self._options(), "--", self._host, "true"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_CHECK_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stderr

    def describe(self) -> str:
        """The device and how ssh is called."""
        return self._name if self._name == self._host else f"{self._name} (ssh {self._host})"

    def reset(self) -> None:
        """End our own master, which may hang; whose master is used is found out again."""
        if self._multiplexing:
            self._control("exit", self._multiplexing)
        self._multiplexing = None

    def close(self) -> None:
        """Nothing: our master ends by itself, and serves the next command until then."""

    def _options(self) -> list[str]:
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(self._connect_s),
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "3",
            "LogLevel": "INFO",
            # What a user has for their own terminal would be in the way of a command.
            "RemoteCommand": "none",
            "ClearAllForwardings": "yes",
        }
        if self._resolved().get("stricthostkeychecking", ["ask"])[0] in {"ask", "true", "yes"}:
            options["StrictHostKeyChecking"] = "yes"
        if self._multiplexing is None:
            self._multiplexing = self._choose_master()
        found = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return ["-T", *found, *self._multiplexing]

    def _choose_master(self) -> list[str]:
        """Options that make connections shared: none where the user's master lives."""
        path = self._resolved().get("controlpath", ["none"])[0]
        if path != "none" and self._control("check", []):
            return []
        folder = control_folder()
        if folder is None:
            return ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        own = {"ControlMaster": "auto", "ControlPath": f"{folder}/%C", "ControlPersist": "60"}
        return [word for key, value in own.items() for word in ("-o", f"{key}={value}")]

    def _control(self, order: str, options: Sequence[str]) -> bool:
        command = [*self._base, *options, "-O", order, "--", self._host]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHECK_S
            )
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise self._no_ssh(error) from error
        return done.returncode == 0

    def _resolved(self) -> Mapping[str, list[str]]:
        """What ssh makes of the host: `ssh -G`, by lower-case keyword."""
        if self._facts is None:
            command = [*self._base, "-G", "--", self._host]
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_CHECK_S,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise self._no_ssh(error) from error
            if done.returncode != 0:
                raise DeviceError(
                    f"ssh does not accept its configuration: {done.stderr.strip()}",
                    where=self.describe(),
                    hint=f"`ssh -G {shlex.quote(self._host)}` must work first",
                )
            self._facts = {}
            for line in done.stdout.splitlines():
                key, _, value = line.partition(" ")
                self._facts.setdefault(key.lower(), []).append(value)
        return self._facts

    def _no_ssh(self, error: Exception) -> DeviceError:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer"
        return DeviceError(
            f"the program {self._program!r} cannot be started: {reason}",
            where=self.describe(),
            hint="install the OpenSSH client, or name one in the variable EDGEOPT_SSH",
        )


def remote_command(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """One line for the login shell there, whichever that is; every word arrives as it is."""
    first = argv[0]
    if first.startswith("~/"):
        words = ['"$HOME"/' + shlex.quote(first[2:])]
    else:
        words = [shlex.quote(first)]
    words += [shlex.quote(word) for word in argv[1:]]
    given = [shlex.quote(f"{key}={value}") for key, value in environment.items()]
    return " ".join(["exec", *(["env", *given] if given else []), *words])


def control_folder() -> Path | None:
    """Where our master sockets lie: private, and short enough; None where there is no such place.

    A folder that belongs to somebody else, or that others may enter, is not used.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [Path(runtime) / "edgeopt"] if runtime else []
    for place in (*places, Path("/tmp") / f"edgeopt-{os.getuid()}"):
        if set(str(place)) & set('% "'):  # What ssh's configuration would read otherwise.
            continue
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        private = found.st_uid == os.getuid() and not found.st_mode & 0o077
        if (
            stat.S_ISDIR(found.st_mode)
            and private
            and len(str(place)) + _SOCKET_NAME < _SOCKET_PATH
        ):
            return place
    return None
