"""`clean`: what lies in the agent's folder for nobody any more goes; the bytes that this frees.

Whatever a living session uses it has used since it began, so that nothing used since then goes:

    agent-*.pyz           those that no living session was started from
    files, blobs,         not used for so many days; with `everything` all
    engines
    results, work         an hour old: the host that asked was answered, or has given up

The environment of `device setup` stays: the device's entry names it.
"""

import os
import sys
import time

import blobs
import cache
import presence
import workfolder
from failures import JobError

_DAYS, _MOST_DAYS = 30.0, 36500.0
_DAY_S = 86400.0
# Every session has them, this one too: that they stay is no news.
_PASSING = ("results", "work")


def clean(home, arguments):
    """Remove what is not needed any more.

    Args:
        home: The agent's folder.
        arguments: days, without use; everything: however lately it was used.

    Returns:
        freed_bytes, free_bytes; removed and kept: what how often.

    Raises:
        JobError: `bad_request`, or `cache_failed`, something cannot be removed.
    """
    days = arguments.get("days", _DAYS)
    number = isinstance(days, (int, float)) and not isinstance(days, bool)
    if not number or not 0 <= days <= _MOST_DAYS:
        raise JobError("bad_request", "days is a number of days")
    living = presence.sessions(home)
    began = min([each[0] for each in living.values()] + [time.time()])
    unused = began if arguments.get("everything") else min(began, time.time() - days * _DAY_S)
    answered = min(began, time.time() - workfolder.KEPT_S)
    count = _Count()
    try:
        count.agents(home, {each[1] for each in living.values()}, answered)
        # Files before the blobs that they are second names of.
        for name, before in (("files", unused), ("blobs", unused), ("engines", unused)):
            count.older(os.path.join(home, name), before)
        count.older(os.path.join(home, "results"), answered)
        count.older(os.path.join(home, "work"), answered)
    except (IOError, OSError) as error:
        text = "%s cannot be removed: %s" % (error.filename, error.strerror)
        raise JobError("cache_failed", text, "whose file is it?") from error
    disk = os.statvfs(home)
    free = disk.f_bavail * disk.f_frsize
    found = {"freed_bytes": count.freed, "removed": count.removed, "kept": count.kept}
    return dict(found, ok=True, free_bytes=free, sessions=len(set(living) - {presence.mine()}))


class _Count(object):
    """What was removed, and what stays."""

    def __init__(self):
        self.freed = 0
        self.removed = {}
        self.kept = {}

    def agents(self, home, used, before):
        """Files of the agent that no session runs, nor one that is about to begin.

        Where a living session could not write down which one it runs, none is touched.
        """
        used = used | {os.path.basename(sys.argv[0])}
        for name in os.listdir(home):
            if name.startswith("agent-") and name.endswith(".pyz"):
                place = os.path.join(home, name)
                away = "" not in used and name not in used and os.path.getmtime(place) < before
                self._one("agents", place, away)

    def older(self, folder, before):
        """What was used last before an instant, and is nobody's who still works on it."""
        for place, _, used in blobs.entries(folder):
            living = os.path.isdir(place) and os.path.exists(os.path.join(place, presence.FILE))
            # A blob that is a second name of a file goes with it: alone it frees nothing.
            second = not os.path.isdir(place) and _names(place) > 1
            kept = used >= before or second or (living and presence.is_alive(place))
            self._one(os.path.basename(folder), place, not kept)

    def _one(self, kind, place, away):
        if away:
            self.freed += cache.remove(place)
        counts = self.removed if away else self.kept
        if away or kind not in _PASSING:
            counts[kind] = counts.get(kind, 0) + 1


def _names(place):
    try:
        return os.stat(place).st_nlink
    except (IOError, OSError):
        return 0  # Another agent was faster.
