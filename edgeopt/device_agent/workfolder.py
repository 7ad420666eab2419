"""The folder where one agent's jobs leave files, and what becomes of those of earlier agents."""

import os
import tempfile

import presence

PREFIX = "edgeopt-agent-"
_LEAST_BYTES = 256 << 20
# So long a host may take to come back for a file after its connection was lost.
KEPT_S = 3600.0


def make(home):
    """A new folder; those of agents that were killed are removed.

    It lies in the agent's own folder where there is space: what a job left is then still there
    when a lost connection is back, and takes no memory of boards that keep /tmp in it.
    """
    temporary = tempfile.gettempdir()
    presence.sweep(temporary, PREFIX)
    place = temporary
    if home:
        work = os.path.join(home, "work")
        presence.sweep(work, PREFIX, KEPT_S)
        if _has_space(home):
            try:
                os.makedirs(work, mode=0o700, exist_ok=True)
                place = work
            except (IOError, OSError):
                pass
    return presence.folder(place, PREFIX)


def is_kept(folder, home):
    """Whether a folder outlives an agent whose connection was lost."""
    return bool(home) and os.path.dirname(folder) == os.path.join(home, "work")


def _has_space(home):
    disk = os.statvfs(home)
    return disk.f_bavail * disk.f_frsize >= _LEAST_BYTES
