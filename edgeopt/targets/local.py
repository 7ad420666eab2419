"""`local`: this machine. The same agent as on any board, over a pipe."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from edgeopt.errors import DeviceError
from edgeopt.targets.bundle import agent_bundle

_GRACE_S = 15.0
_BYE_S = 5.0
_LOG = 1500


class LocalTarget:
    """A running agent on this machine. Implements `core.protocols.Target`.

    The agent has a session of its own, so that Ctrl-C in a terminal does not reach it, and ends
    when its input does, however this process ends. Requests of several threads wait for each
    other: a device measures one thing at a time.

    Args:
        name: Under which the study knows it.
        folder: Where the agent's file is kept; None for a temporary place.
        python: The interpreter that runs the agent; it needs numpy and onnxruntime.
        environment: Variables beside this process's own.

    Raises:
        DeviceError: The interpreter cannot be started.
    """

    def __init__(
        self,
        name: str = "local",
        *,
        folder: Path | None = None,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._folder = tempfile.TemporaryDirectory(prefix="edgeopt-local-")
        place = Path(self._folder.name)
        self._log = place / "agent.log"
        self._lock = threading.Lock()
        self._replies: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._closed = False
        try:
            with self._log.open("wb") as log:
                self._agent = subprocess.Popen(
                    [python, str(agent_bundle(folder or place))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
        except OSError as error:
            self._folder.cleanup()
            raise DeviceError(
                f"the agent cannot be started: {error.strerror or error}",
                where=f"{name} ({python})",
                hint="name a Python with numpy and onnxruntime",
            ) from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def name(self) -> str:
        """The name under which the study knows the device."""
        return self._name

    @property
    def pid(self) -> int:
        """The agent's process."""
        return self._agent.pid

    def put(self, path: Path) -> str:
        """The absolute path: on this machine every file is there already.

        Raises:
            DeviceError: There is no such file.
        """
        if not path.is_file():
            raise DeviceError("there is no such file", where=str(path), hint="build it again")
        return str(path.resolve())

    def fetch(self, place: str) -> Path:
        """The file itself: it lies on this machine."""
        return Path(place)

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        """One job: sent, waited for, answered.

        Raises:
            DeviceError: The agent ended, or did not answer long after the deadline.
        """
        name = uuid.uuid4().hex
        message = {"id": name, "verb": verb, "deadline_s": deadline_s, "arguments": arguments}
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            if self._closed:
                raise self._error("the agent was closed")
            try:
                cast("Any", self._agent.stdin).write(line)
                cast("Any", self._agent.stdin).flush()
            except OSError:
                raise self._ended() from None
            return self._wait(name, deadline_s + _GRACE_S)

    def _wait(self, name: str, timeout_s: float) -> Mapping[str, Any]:
        while True:
            try:
                reply = self._replies.get(timeout=timeout_s)
            except queue.Empty:
                self._agent.kill()
                raise self._error(f"the agent gave no answer in {timeout_s:g} s") from None
            if reply is None:
                self._replies.put(None)
                raise self._ended()
            if reply.get("id") == name:
                return reply

    def _read(self) -> None:
        for line in cast("Any", self._agent.stdout):
            try:
                found: Any = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                self._replies.put(cast("dict[str, Any]", found))
        self._replies.put(None)

    def _ended(self) -> DeviceError:
        try:
            code = self._agent.wait(_BYE_S)
        except subprocess.TimeoutExpired:
            return self._error("the agent closed its output")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return self._error(f"the agent ended during the session ({how})")

    def _error(self, what: str) -> DeviceError:
        tail = ""
        if self._log.exists():
            tail = self._log.read_bytes()[-_LOG:].decode("utf-8", "replace").strip()
        return DeviceError(
            what + (f"; its last words: {tail}" if tail else ""),
            where=self._name,
            hint="run `edgeopt doctor`; the same command goes on from what was measured",
        )

    def close(self) -> None:
        """End the agent: its input closes, and it is killed where that is not enough."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            cast("Any", self._agent.stdin).close()
        try:
            self._agent.wait(_BYE_S)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()
        self._reader.join(_BYE_S)
        cast("Any", self._agent.stdout).close()
        self._folder.cleanup()

    def __enter__(self) -> "LocalTarget":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


PLUGIN = LocalTarget
