"""The agent's protocol over any connection: requests, replies, beats, and what to do when it ends.

`Session` is one running agent. `PipeTarget` is a device: it starts sessions, and where one is
lost it starts another, asks for the result of the job in hand, and only then repeats the job.
"""

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from edgeopt.core.closing import Closing
from edgeopt.errors import ConnectionLostError, DeviceError
from edgeopt.targets.connection import Connection

BOARD_WAIT_S = 600.0
BEAT_S = 5.0
# Three beats missed, and the time of one for a board that is slow to send.
SILENCE_S = 4 * BEAT_S
_GRACE_S = 15.0
# An agent that puts a power mode back on a busy board needs its time; others end at once.
_BYE_S = 20.0
_LOG = 1500
_ASK_S = 60.0
_POLL_S = 1.0


class AgentEndedError(DeviceError):
    """The agent on the device ended by itself; the connection is not to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a device that went away.

    Args:
        total_s: From the loss to giving up.
        first_s: Pause before the second attempt; doubled for each further one.
        longest_s: Limit of a pause.
        repeats: How often one job is sent at most.
    """

    total_s: float = 120.0
    first_s: float = 1.0
    longest_s: float = 20.0
    repeats: int = 5


class Session:
    """One running agent behind a pipe. One request at a time.

    Args:
        connection: Starts it.
        argv: Its command.
        environment: Its variables.
        where: The device, for messages.
        silence_s: Without a line for so long during a job the connection counts as lost; None
            where a lost connection always closes the pipe.

    Raises:
        DeviceError: It cannot be started.
    """

    def __init__(
        self,
        connection: Connection,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        where: str,
        silence_s: float | None = None,
    ) -> None:
        self._connection = connection
        self._where = where
        self._silence_s = silence_s
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the session)
        try:
            self._process = connection.start(argv, environment, log=self._log)
        except DeviceError:
            self._log.close()
            raise
        self._lines: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if silence_s is not None:
            threading.Thread(target=self._beat, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process on this machine: the agent, or the ssh that leads to it."""
        return self._process.pid

    def ask(self, message: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """Send one request and wait for its reply.

        Raises:
            ConnectionLostError: The connection ended, or fell silent.
            AgentEndedError: The agent ended.
            DeviceError: It lives, but does not answer in time.
        """
        try:
            self._write(message)
        except (OSError, ValueError):
            raise self._end() from None
        end = time.monotonic() + timeout_s
        while True:
            left = end - time.monotonic()
            silence = left if self._silence_s is None else min(left, self._silence_s)
            try:
                reply = self._lines.get(timeout=max(0.0, silence))
            except queue.Empty:
                raise self._silent(timeout_s, time.monotonic() >= end) from None
            if reply is None:
                self._lines.put(None)
                raise self._end()
            if reply.get("id") == message["id"]:
                return reply

    def _write(self, message: Mapping[str, Any]) -> None:
        stream = cast("Any", self._process.stdin)
        with self._writing:
            stream.write(json.dumps(message).encode() + b"\n")
            stream.flush()

    def _beat(self) -> None:
        """Tell the agent that this host is there: it ends after long silence."""
        number = 0
        while not self._ended.wait(BEAT_S):
            number += 1
            try:
                self._write({"beat": number})
            except (OSError, ValueError):
                return

    def _read(self) -> None:
        for line in cast("Any", self._process.stdout):
            found = parse(line)
            if found is not None:
                self._lines.put(found)
        self._lines.put(None)

    def _silent(self, timeout_s: float, late: bool) -> DeviceError:
        """The error after a wait in vain; nothing of this session is used any more."""
        self.kill()
        if late:
            return self.error(DeviceError, f"the agent gave no answer in {timeout_s:g} s")
        self._connection.reset()
        return self.error(ConnectionLostError, f"nothing was heard for {self._silence_s:g} s")

    def _end(self) -> DeviceError:
        """Why the agent's output ended."""
        try:
            code = self._process.wait(_BYE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.error(AgentEndedError, "the agent closed its output")
        self._ended.set()
        failure = self._connection.failure(code, self.words())
        if failure is not None:
            return failure
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return self.error(AgentEndedError, f"the agent ended during the session ({how})")

    def words(self) -> str:
        """The last that was written to stderr."""
        try:
            size = self._log.seek(0, 2)
            self._log.seek(max(0, size - _LOG))
            return self._log.read().decode("utf-8", "replace").strip()
        except ValueError:  # Closed, perhaps by another thread just now.
            return ""

    def error(self, kind: type[DeviceError], what: str) -> DeviceError:
        """An error with place, last words and hint."""
        tail = self.words()
        return kind(
            what + (f"; its last words: {tail}" if tail else ""),
            where=self._where,
            hint="run `edgeopt doctor`; the same command goes on from what was measured",
        )

    def kill(self) -> None:
        """End it without a farewell."""
        self._ended.set()
        self._process.kill()

    def close(self) -> None:
        """End the agent: its input closes, and it is killed where that is not enough."""
        self._ended.set()
        if self._writing.acquire(timeout=_BYE_S):
            with contextlib.suppress(OSError, ValueError):
                stream = cast("Any", self._process.stdin)
                stream.write(b'{"id": "end", "verb": "bye"}\n')
                stream.close()
            self._writing.release()
        else:  # Somebody is stuck in the pipe.
            self._process.kill()
        try:
            self._process.wait(_BYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_BYE_S)
        if not self._reader.is_alive():
            cast("Any", self._process.stdout).close()
        self._log.close()


def parse(line: bytes) -> Mapping[str, Any] | None:
    """The message of a line; None for what a login prints. It may even stand before a message."""
    for start in (0, line.find(b'{"')):
        try:
            found: Any = json.loads(line[max(0, start) :])
        except ValueError:
            continue
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
    return None


class PipeTarget(Closing):
    """A device whose agent answers through a pipe. Implements requests of `core.protocols.Target`.

    Requests of several threads wait for each other: a device measures one thing at a time.

    Args:
        name: Under which the study knows it.
        opener: Starts a session.
        patience: With a device that goes away; None where the end of a session is final.
        board_wait_s: How long a job waits there for others who measure on the same board.

    Raises:
        DeviceError: The device cannot be reached, or the agent cannot be started.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[], Session],
        *,
        patience: Patience | None = None,
        board_wait_s: float = BOARD_WAIT_S,
    ) -> None:
        self._board_wait_s = board_wait_s
        self._name = name
        self._opener = opener
        self._patience = patience
        self._lock = threading.RLock()
        self._closed = False
        self._session: Session | None = opener()

    @property
    def name(self) -> str:
        """The name under which the study knows the device."""
        return self._name

    @property
    def pid(self) -> int:
        """The process on this machine that leads to the agent; 0 while there is none."""
        return self._session.pid if self._session else 0

    def put(self, path: Path) -> str:
        """The absolute path: a pipe alone brings no file anywhere.

        Raises:
            DeviceError: There is no such file.
        """
        if not path.is_file():
            raise DeviceError("there is no such file", where=str(path), hint="build it again")
        return str(path.resolve())

    def fetch(self, place: str) -> Path:
        """The file itself: it lies on this machine."""
        return Path(place)

    def request(
        self, verb: str, *, deadline_s: float, wait_s: float | None = None, **arguments: Any
    ) -> Mapping[str, Any]:
        """One job: sent, waited for, answered; repeated under its id where the device went away.

        Args:
            verb: Of the agent.
            deadline_s: Time limit of the job, kept by the device.
            wait_s: How long to wait there for others who measure on the same board; None takes
                the target's own.
            arguments: Of the verb.

        Raises:
            ConnectionLostError: The device went away and did not come back in time.
            DeviceError: The agent ended, or did not answer long after the deadline.
        """
        patience_s = self._board_wait_s if wait_s is None else wait_s
        message = {
            "id": uuid.uuid4().hex,
            "verb": verb,
            "deadline_s": deadline_s,
            "wait_s": patience_s,
            "arguments": arguments,
        }
        with self._lock:
            if self._closed:
                raise self._was_closed()
            return self._do(message, deadline_s + patience_s + _GRACE_S)

    def _do(self, message: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        repeats = self._patience.repeats if self._patience else 1
        lost: DeviceError | None = None
        for _ in range(repeats):
            session = self._session or self._reopen()
            try:
                stored = self._stored(session, message, timeout_s) if lost else None
                return stored or session.ask(message, timeout_s)
            except DeviceError as error:
                if self._patience is None or self._closed:
                    raise
                self._drop()
                if self._closed:
                    raise self._was_closed() from error
                if not isinstance(error, ConnectionLostError | AgentEndedError):
                    raise
                lost = error
        raise cast("DeviceError", lost)

    def _stored(
        self, session: Session, message: Mapping[str, Any], timeout_s: float
    ) -> Mapping[str, Any] | None:
        """The result of a job that an earlier agent finished, or is still busy with."""
        end = time.monotonic() + timeout_s
        while True:
            question = {
                "id": uuid.uuid4().hex,
                "verb": "result",
                "arguments": {"job": message["id"]},
            }
            answer = session.ask(question, _ASK_S)
            if answer.get("state") == "done":
                return cast("Mapping[str, Any]", answer["reply"])
            if answer.get("state") != "running" or time.monotonic() > end:
                return None
            time.sleep(_POLL_S)

    def _reopen(self) -> Session:
        """A new session, tried again with growing pauses until patience ends."""
        patience = cast("Patience", self._patience)
        end, pause = time.monotonic() + patience.total_s, patience.first_s
        while True:
            try:
                self._session = self._opener()
            except (ConnectionLostError, AgentEndedError):
                if self._closed or time.monotonic() + pause > end:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, patience.longest_s)
            else:
                if self._closed:  # by another thread, meanwhile
                    self._drop()
                    raise self._was_closed()
                return self._session

    def _was_closed(self) -> DeviceError:
        return DeviceError("the agent was closed", where=self._name, hint="open the device again")

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.kill()
            session.close()

    def close(self) -> None:
        """End the agent. Closing twice is allowed; a request under way is cut off."""
        if self._closed:
            return
        self._closed = True
        session = self._session
        if session is not None:
            session.close()
