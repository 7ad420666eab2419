"""`BoardTarget`: a device that has its own files, whichever connection leads to it."""

import hashlib
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any, cast

from edgeopt.core.device import DeviceEntry
from edgeopt.errors import ConnectionLostError, DeviceError
from edgeopt.targets import bootstrap
from edgeopt.targets.bundle import agent_bundle
from edgeopt.targets.connection import Connection
from edgeopt.targets.pipe import (
    BOARD_WAIT_S,
    SILENCE_S,
    AgentEndedError,
    Patience,
    PipeTarget,
    Session,
)
from edgeopt.targets.segments import Plan, plan
from edgeopt.targets.transfer import Transfer, human

_OLDEST = (3, 6)
_COMMAND_S = 90.0
_HELLO_S = 120.0
POWER_MODE_S = 120.0
_NOT_FOUND = (126, 127)
# Places of files on the device are made again at most so often within one request.
_REPAIRS = 2


class BoardTarget(PipeTarget):
    """The agent on a device with files of its own. Implements `core.protocols.Target`.

    The first command finds the interpreter and the folder, the second brings the agent where it
    is not there yet, the third starts it. A lost connection begins with the first again.

    Args:
        entry: How it is reached and what runs there.
        connection: Starts commands there; closed with this.
        folder: Where the agent's file is made on this host.
        silence_s: See `Session`; None where a lost connection always closes the pipe.
        patience: With a device that goes away.
        board_wait_s: How long a job waits there for others who measure on the same board.

    Raises:
        ConnectionLostError: It cannot be reached.
        DeviceError: No interpreter, one that is too old, no folder to write in, no space.
    """

    def __init__(
        self,
        entry: DeviceEntry,
        connection: Connection,
        *,
        folder: Path,
        silence_s: float | None = SILENCE_S,
        patience: Patience | None = None,
        board_wait_s: float = BOARD_WAIT_S,
    ) -> None:
        self._entry = entry
        self._connection = connection
        self._silence_s = silence_s
        self._patience_s = (patience or Patience()).total_s
        self._fetched = tempfile.TemporaryDirectory(prefix="edgeopt-fetched-")
        self._places: dict[str, Path] = {}
        self._plans: dict[tuple[str, int, int], Plan] = {}
        try:
            self._bundle = agent_bundle(folder)
            super().__init__(
                entry.name,
                self._open,
                patience=patience or Patience(),
                board_wait_s=board_wait_s,
            )
        except Exception:
            self._fetched.cleanup()
            raise

    # -- the way there -----------------------------------------------------------------------

    def _open(self) -> Session:
        interpreter, found = self._survey()
        place = str(found["agent"])
        if not found["present"]:
            self._bring(interpreter, place, cast("int | None", found["free"]))
        given = {**self._entry.environment, "EDGEOPT_CACHE": str(found["cache"])}
        sets = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        # Twice: a container passes no variables on, and some are needed before Python starts.
        self._command = [*interpreter.argv, place, *sets]
        self._given = given
        session = Session(
            self._connection,
            self._command,
            given,
            where=self._connection.describe(),
            silence_s=self._silence_s,
        )
        try:
            reply = session.ask(self._hello(), _HELLO_S)
        except DeviceError:
            session.kill()
            session.close()
            raise
        if not reply["ok"]:
            session.close()
            raise self._error(f"the agent does not start: {reply['error']['text']}", "")
        self._enter_mode(session)
        return session

    def _enter_mode(self, session: Session) -> None:
        """Bring the board into the entry's power mode; the agent puts the old one back."""
        if not self._entry.power_mode:
            return
        message = power_mode_request(self._entry.power_mode)
        try:
            reply = session.ask(message, POWER_MODE_S + message["wait_s"])
        except DeviceError:
            session.kill()
            session.close()
            raise
        if not reply["ok"]:
            session.close()
            error = reply["error"]
            raise self._error(f"its power mode: {error['text']}", str(error["hint"]))

    def _hello(self) -> Mapping[str, Any]:
        owner = {"user": _user(), "host": socket.gethostname()}
        arguments: dict[str, Any] = {**owner, "runtime": False}
        if self._silence_s is not None:
            # Only a host that sends signs of life may be taken for dead without them.
            arguments["patience_s"] = max(600.0, 2 * self._patience_s)
        return {"id": "hello", "verb": "hello", "deadline_s": _HELLO_S, "arguments": arguments}

    def _survey(self) -> tuple[bootstrap.Interpreter, Mapping[str, Any]]:
        """The interpreter, and what it says about itself and the folder."""
        tried = bootstrap.interpreters(self._entry)
        cache = self._entry.cache_dir or bootstrap.DEFAULT_CACHE
        digest = hashlib.sha256(self._bundle.read_bytes()).hexdigest()
        command = bootstrap.survey_command(tried, cache, self._bundle.name, digest)
        output, words = self._run(command)
        survey = bootstrap.read_survey(output)
        if survey.found is None:
            raise self._no_interpreter(tried, survey, words)
        interpreter, found = tried[survey.chosen], survey.found
        version = tuple(cast("list[int]", found["version"]))
        if version < _OLDEST:
            raise self._error(
                f"`{interpreter.shown}` is Python {'.'.join(map(str, version))}, and the agent "
                "needs 3.6 or newer",
                f"name a newer one: {self._where_to_say()}",
            )
        if found["problem"]:
            raise self._error(
                f"the agent's folder {found['cache']} cannot be written: {found['problem']}",
                "free space there, or name another folder: "
                f'cache_dir = "/path" for {self._entry.name} in the devices file',
            )
        return interpreter, found

    def _bring(self, interpreter: bootstrap.Interpreter, place: str, free: int | None) -> None:
        """Put the agent's file there."""
        data = self._bundle.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        command = bootstrap.receive_command(interpreter, place, digest, len(data))
        output, words = self._run(command, data)
        answer = bootstrap.answer(output)
        if answer is None or not answer["ok"]:
            reason = answer["problem"] if answer else words or "no answer"
            space = "" if free is None else f"; {human(len(data))} are needed, {human(free)} free"
            raise self._error(
                f"the agent cannot be written to {place}: {reason}{space}",
                "free space on the device, or name another folder: "
                f'cache_dir = "/path" for {self._entry.name} in the devices file',
            )

    def _run(self, argv: Sequence[str], data: bytes = b"") -> tuple[str, str]:
        """Output and last words of a short command; its exit code says nothing here."""
        with tempfile.TemporaryFile() as log:
            process = self._connection.start(argv, self._entry.environment, log=log)
            try:
                output, _ = process.communicate(data, timeout=_COMMAND_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                self._connection.reset()
                raise ConnectionLostError(
                    f"the device gave no answer in {_COMMAND_S:g} s",
                    where=self._connection.describe(),
                    hint="is it busy, or out of memory? try again, then restart it",
                ) from None
            log.seek(0)
            words = log.read().decode("utf-8", "replace").strip()
        failure = self._connection.failure(process.returncode, words)
        if failure is not None:
            raise failure
        return output.decode("utf-8", "replace"), words[-1000:]

    def _no_interpreter(
        self, tried: Sequence[bootstrap.Interpreter], survey: bootstrap.Survey, words: str
    ) -> DeviceError:
        if not survey.codes:
            return self._error(
                "the login there runs no commands" + (f": {words}" if words else ""),
                "its shell must be one that runs `sh -c`",
            )
        names: list[str] = []
        for number, code in survey.codes.items():
            how = "not found" if code in _NOT_FOUND else f"exit code {code}"
            names.append(f"`{tried[number].shown}` ({how})")
        broken = any(code not in _NOT_FOUND for code in survey.codes.values())
        return self._error(
            f"no Python starts on the device ({survey.system or 'system unknown'}): tried "
            + ", ".join(names)
            + (f"; its words: {words}" if broken and words else ""),
            f"install python3 (3.6 or newer) there, or {self._where_to_say()}",
        )

    def _where_to_say(self) -> str:
        return (
            f'python = "/path/to/python3" (or exec = "a command") for {self._entry.name} '
            "in the devices file"
        )

    def _error(self, what: str, hint: str) -> DeviceError:
        return DeviceError(what, where=self._connection.describe(), hint=hint)

    # -- files -------------------------------------------------------------------------------

    def put(self, path: Path) -> str:
        """Bring a file, with the external data that it names, to the device; its path there.

        Only the parts that are not there yet are sent.

        Raises:
            ConnectionLostError: The device went away and did not come back in time.
            DeviceError: There is no such file, or no space for it on the device.
        """
        if not path.is_file():
            raise DeviceError("there is no such file", where=str(path), hint="build it again")
        with self._lock:
            place = self._transfer().put(self._plan(path))
            self._places[place] = path
            return place

    def fetch(self, place: str) -> Path:
        """Bring a file that a reply names to this host; gone when the target closes.

        Raises:
            ConnectionLostError: The device went away and did not come back in time.
            DeviceError: There is no such file there, or it is larger than the limit.
        """
        with self._lock:
            return self._transfer().fetch(place, Path(self._fetched.name))

    def request(
        self, verb: str, *, deadline_s: float, wait_s: float | None = None, **arguments: Any
    ) -> Mapping[str, Any]:
        """As `PipeTarget.request`; files that are no longer on the device are brought again."""
        with self._lock:
            for _ in range(_REPAIRS):
                reply = super().request(verb, deadline_s=deadline_s, wait_s=wait_s, **arguments)
                error = cast("Mapping[str, Any]", reply.get("error") or {})
                gone = cast("list[str]", error.get("places") or [])
                if not gone or not all(place in self._places for place in gone):
                    return reply
                for place in gone:
                    self.put(self._places[place])
            return super().request(verb, deadline_s=deadline_s, wait_s=wait_s, **arguments)

    def _plan(self, path: Path) -> Plan:
        """The file in parts; kept as long as the file does not change."""
        found = path.stat()
        key = (str(path.resolve()), found.st_mtime_ns, found.st_size)
        if key not in self._plans:
            self._plans[key] = plan(path)
        return self._plans[key]

    def _transfer(self) -> Transfer:
        return Transfer(
            ask=lambda verb, deadline_s, arguments: PipeTarget.request(
                self, verb, deadline_s=deadline_s, **arguments
            ),
            start=lambda words, log: self._connection.start(
                [*self._command, *words], self._given, log=log
            ),
            connection=self._connection,
            retry=self._again,
        )

    def _again(self, error: DeviceError) -> None:
        """Before a transfer is tried again: the device must be there."""
        if not isinstance(error, ConnectionLostError | AgentEndedError):
            raise error
        self._drop()
        self._reopen()

    def close(self) -> None:
        """End the agent, and forget what was fetched."""
        super().close()
        self._connection.close()
        self._fetched.cleanup()


def power_mode_request(name: str) -> dict[str, Any]:
    """The job that makes a power mode the active one; it waits for who measures there."""
    return {
        "id": uuid.uuid4().hex,
        "verb": "power_mode",
        "deadline_s": POWER_MODE_S,
        "wait_s": BOARD_WAIT_S,
        "arguments": {"name": name},
    }


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        return "unknown"
