"""One measuring job per board: a lock that threads and processes of this host share.

Devices can share a board (two runtimes on one machine, an emulated userland): what tells boards
apart is the boot id that the agent reports. The board itself has a lock too, held by the agent,
for hosts that do not know of each other.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from edgeopt.core import digest as digests
from edgeopt.core.protocols import Target
from edgeopt.errors import StorageError

_POLL_S = 0.2
_TELL_AFTER_S = 5.0


class BoardLock:
    """Held while anything runs on one board; reentrant within a thread.

    The kernel releases it when its process ends, so there is no stale lock.

    Args:
        board: What tells the board from others.
        folder: Where lock files lie; created where missing.
        waiting: Told once, after five seconds, who holds the board.

    Raises:
        StorageError: The lock file cannot be written.
    """

    def __init__(
        self, board: str, folder: Path, waiting: Callable[[str], None] | None = None
    ) -> None:
        self._path = folder / f"{digests.short(digests.of_text(board))}.lock"
        self._waiting = waiting
        self._threads = threading.RLock()
        self._depth = 0
        self._stream: IO[str] | None = None

    def __enter__(self) -> "BoardLock":
        self._threads.acquire()
        if self._depth == 0:
            try:
                self._stream = self._locked()
            except BaseException:
                self._threads.release()
                raise
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._depth == 0 and self._stream is not None:
            self._stream.close()
            self._stream = None
        self._threads.release()

    def _locked(self) -> IO[str]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            stream = self._path.open("a+", encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"the board's lock cannot be written: {error.strerror or error}",
                where=str(self._path),
                hint="set XDG_CACHE_HOME to a folder that can be written",
            ) from error
        start, told = time.monotonic(), False
        while not _taken(stream):
            if not told and self._waiting and time.monotonic() - start > _TELL_AFTER_S:
                told = True
                self._waiting(f"waiting for the board: {_owner(stream)} measures on it")
            time.sleep(_POLL_S)
        stream.seek(0)
        stream.truncate()
        stream.write(json.dumps({"pid": os.getpid()}))
        stream.flush()
        return stream


def lock_folder() -> Path:
    """Where this host keeps its boards' locks: one place for every workspace."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgeopt" / "boards"


def board_of(facts: Mapping[str, Any], name: str) -> str:
    """What tells a device's board from others; its name where it does not say."""
    return str(facts.get("boot_id") or f"device {name}")


class SharedBoard:
    """A target whose every job waits until its board is free. Implements `Target`."""

    def __init__(self, target: Target, board: BoardLock) -> None:
        self._target = target
        self._board = board

    @property
    def name(self) -> str:
        """The device's name."""
        return self._target.name

    def put(self, path: Path) -> str:
        """As the target does; uploads need no lock."""
        return self._target.put(path)

    def fetch(self, place: str) -> Path:
        """As the target does."""
        return self._target.fetch(place)

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        """One job, while nothing else of this host runs on the board."""
        with self._board:
            return self._target.request(verb, deadline_s=deadline_s, **arguments)

    def close(self) -> None:
        """End the agent."""
        self._target.close()


def _taken(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(stream: IO[str]) -> str:
    stream.seek(0)
    try:
        return f"process {json.loads(stream.read())['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
