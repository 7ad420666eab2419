"""Results of jobs that a lost connection must not lose: kept in files until they are old.

While a job runs, its agent holds a lock on `<job>.lock`: so the agent of the next connection can
tell a job that is still under way (the old agent does not know yet that its host is gone).
"""

import contextlib
import fcntl
import json
import os
import re

import cache

_KEPT = 200
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}$")


class Results(object):
    """The folder `results`.

    Args:
        home: The agent's folder; None keeps nothing.
    """

    def __init__(self, home):
        self._folder = None
        if home and cache.make(os.path.join(home, "results")):
            self._folder = os.path.join(home, "results")

    @contextlib.contextmanager
    def running(self, job):
        """While a job runs, others can see that it does."""
        place = self._place(job, ".lock")
        stream = _open(place) if place else None
        try:
            if stream is not None:
                _try_lock(stream)
            yield
        finally:
            if stream is not None:
                _remove(place)
                stream.close()

    def keep(self, job, reply):
        """Keep the reply of a job; a full disk costs only that."""
        place = self._place(job, ".json")
        if not place:
            return
        try:
            cache.write_aside(place, json.dumps(reply).encode("utf-8"))
            self._forget_oldest()
        except (IOError, OSError):
            pass

    def look(self, job):
        """`done` with its reply, `running`, or `unknown`."""
        place = self._place(job, ".json")
        if not place:
            return {"ok": True, "state": "unknown"}
        running = _is_held(self._place(job, ".lock"))
        reply = _read(place)
        if reply is not None and _files_are_there(reply, os.path.dirname(place)):
            return {"ok": True, "state": "done", "reply": reply}
        return {"ok": True, "state": "running" if running else "unknown"}

    def _place(self, job, suffix):
        if self._folder is None or not _NAME.match(job):
            return None
        return os.path.join(self._folder, job + suffix)

    def _forget_oldest(self):
        places = [
            os.path.join(self._folder, name)
            for name in os.listdir(self._folder)
            if name.endswith(".json")
        ]
        for place in sorted(places, key=os.path.getmtime)[:-_KEPT]:
            _remove(place)


def _files_are_there(reply, folder):
    """Whether the files that a reply names still exist: those of an agent that ended do not."""
    named = [value for value in reply.values() if isinstance(value, str) and os.path.isabs(value)]
    return all(os.path.exists(value) for value in named)


def _read(place):
    try:
        with open(place) as stream:
            found = json.load(stream)
    except (IOError, OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _open(place):
    try:
        return open(place, "w")
    except (IOError, OSError):
        return None


def _try_lock(stream):
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (IOError, OSError):
        return False
    return True


def _is_held(place):
    """Whether a live process holds the lock; the kernel releases those of dead ones."""
    try:
        stream = open(place)
    except (IOError, OSError):
        return False
    with stream:
        return not _try_lock(stream)


def _remove(place):
    try:
        os.remove(place)
    except (IOError, OSError):
        pass
