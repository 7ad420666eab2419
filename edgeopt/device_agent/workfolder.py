"""The folder where one agent's jobs leave files, and what becomes of those of earlier agents."""

import os
import shutil
import tempfile
import time

PREFIX = "edgeopt-agent-"
_LEAST_BYTES = 256 << 20
# So long a host may take to come back for a file after its connection was lost.
_KEPT_S = 3600.0


def make(home):
    """A new folder; those of agents that were killed are removed.

    It lies in the agent's own folder where there is space: what a job left is then still there
    when a lost connection is back, and takes no memory of boards that keep /tmp in it.
    """
    temporary = tempfile.gettempdir()
    _sweep(temporary, 0.0)
    place = temporary
    if home:
        work = os.path.join(home, "work")
        _sweep(work, _KEPT_S)
        if _has_space(home):
            try:
                os.makedirs(work, mode=0o700, exist_ok=True)
                place = work
            except (IOError, OSError):
                pass
    return tempfile.mkdtemp(prefix="%s%d-" % (PREFIX, os.getpid()), dir=place)


def is_kept(folder, home):
    """Whether a folder outlives an agent whose connection was lost."""
    return bool(home) and os.path.dirname(folder) == os.path.join(home, "work")


def _has_space(home):
    disk = os.statvfs(home)
    return disk.f_bavail * disk.f_frsize >= _LEAST_BYTES


def _sweep(place, kept_s):
    for name in os.listdir(place) if os.path.isdir(place) else []:
        pid = name[len(PREFIX) :].partition("-")[0]
        path = os.path.join(place, name)
        if name.startswith(PREFIX) and pid.isdigit() and not alive(int(pid)):
            if _age_s(path) >= kept_s:
                shutil.rmtree(path, ignore_errors=True)


def _age_s(path):
    try:
        return time.time() - os.path.getmtime(path)
    except (IOError, OSError):
        return 0.0  # Another agent was faster.


def alive(pid):
    """Whether a process of that number runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
