"""Who is still there: an agent holds locks as long as it lives, and the kernel lets go of them.

Numbers of processes say nothing to containers that share a folder with their host or with each
other: they count from one again in each. A lock on a file in that folder holds across them.

    sessions/<name>/.alive   held by the agent of a session; its time is when the session began
    sessions/<name>/agent    the file that the agent was started from
"""

import errno
import fcntl
import os
import shutil
import sys
import tempfile
import time

import cache

FILE = ".alive"
_VARIABLE = "EDGEOPT_SESSION"
_NEW = ".new-"
# Folders without a lock that could be looked at: of agents before there was one, or on a file
# system without locks.
_UNKNOWN_S = 86400.0
_HELD = {}


def folder(place, prefix):
    """A new folder in a place, taken for alive by others until `release` or the process's end.

    It gets its name when the lock is held: nobody ever sees it without.

    Raises:
        OSError: It cannot be made.
    """
    new = tempfile.mkdtemp(prefix=_NEW + prefix, dir=place)
    path = os.path.join(place, os.path.basename(new)[len(_NEW) :])
    number = os.open(os.path.join(new, FILE), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (IOError, OSError):
        pass  # A file system without locks: then the age of the folder counts.
    _HELD[path] = number
    os.rename(new, path)
    return path


def release(path):
    """Let a folder be one like others: its lock and the file of it are gone."""
    number = _HELD.pop(path, None)
    if number is not None:
        os.close(number)
        os.remove(os.path.join(path, FILE))


def is_alive(path):
    """Whether the process that made a folder may still run."""
    try:
        number = os.open(os.path.join(path, FILE), os.O_RDWR | os.O_NOFOLLOW)
    except (IOError, OSError) as error:
        # What belongs to another user is not ours to judge.
        return error.errno != errno.ENOENT or _age_s(path) < _UNKNOWN_S
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except (IOError, OSError) as error:
        held = error.errno in (errno.EAGAIN, errno.EACCES)
        return held or _age_s(path) < _UNKNOWN_S
    finally:
        os.close(number)


def sweep(place, prefix, kept_s=0.0):
    """Remove the folders in a place whose makers are gone, once they are that old."""
    for name in os.listdir(place) if os.path.isdir(place) else []:
        path = os.path.join(place, name)
        # One that never got its name was cut off while it was made.
        least_s = _UNKNOWN_S if name.startswith(_NEW + prefix) else kept_s
        if not name.startswith((prefix, _NEW + prefix)) or _age_s(path) < least_s:
            continue
        if not is_alive(path):
            shutil.rmtree(path, ignore_errors=True)


def begin(home):
    """Make this agent known as a living session; jobs inherit its name."""
    os.environ.pop(_VARIABLE, None)
    place = os.path.join(home, "sessions")
    try:
        cache.make(place)
        sweep(place, "session-")
        path = folder(place, "session-")
        os.environ[_VARIABLE] = os.path.basename(path)
        with open(os.path.join(path, "agent"), "w") as stream:
            stream.write(os.path.basename(sys.argv[0]))
    except (IOError, OSError):
        pass  # A full disk: only what needs a session to be known is refused then.


def end(home):
    """This session is over."""
    if mine():
        shutil.rmtree(os.path.join(home, "sessions", mine()), ignore_errors=True)


def mine():
    """Name of the session that this agent or job belongs to; empty where there is none."""
    return os.environ.get(_VARIABLE, "")


def sessions(home):
    """The living sessions: name to (when it began, the file of its agent)."""
    place, found = os.path.join(home, "sessions"), {}
    for name in os.listdir(place) if os.path.isdir(place) else []:
        path = os.path.join(place, name)
        if name.startswith(_NEW) or not is_alive(path):
            continue
        try:
            began = os.path.getmtime(os.path.join(path, FILE))
            with open(os.path.join(path, "agent")) as stream:
                found[name] = (began, stream.read())
        except (IOError, OSError):
            found[name] = (0.0, "")  # Nothing is known of it: all may be in use.
    return found


def _age_s(path):
    try:
        return time.time() - os.path.getmtime(path)
    except (IOError, OSError):
        return 0.0  # Another agent was faster.
