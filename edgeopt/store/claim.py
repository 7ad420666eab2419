"""`Claim`: one process at a time works on a study.

A lock of the kernel on a file, not a row with a process id: it ends with the process that holds
it, however that process ends, so there is no stale lock to judge (process ids are reused, and
are other ones inside a container). The file's content only serves the message.
"""

import fcntl
import os
import socket
from pathlib import Path

from edgeopt.errors import StorageError
from edgeopt.store import faults


class Claim:
    """The right to add trials to a study, held until `release`.

    Args:
        path: The lock file; created where missing, and left behind.

    Raises:
        StorageError: Another process holds it, or the file cannot be locked.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise faults.of_os(error, path) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(self._file, 200, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise _taken(path, holder) from None
        except OSError as error:
            os.close(self._file)
            raise faults.of_os(error, path) from error

    def release(self) -> None:
        """Let others work on the study. Releasing twice is allowed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _taken(path: Path, holder: str) -> StorageError:
    return StorageError(
        f"another run works on this study (process {holder or 'unknown'})",
        where=path.stem,
        hint="wait for it to end or stop it; or give this run a folder of its own with --out",
    )
