"""One measuring job a board at a time, whoever asks.

The lock is a `flock` on a file that all users of the board share, and on one in the agent's
folder (which a container and its host may share where they do not share the first). The kernel
releases both when their holder ends, however it ends: a file that is left behind hinders nobody.
What stands in the file is for the message only.
"""

import contextlib
import errno
import fcntl
import getpass
import json
import os
import socket
import tempfile
import time

from failures import JobError

_NAME = "edgeopt-board.lock"
_POLL_S = 0.1
_LONGEST = 80


def owner(user=None, host=None):
    """Who measures: as the host says, or the user and the machine of this agent."""
    return {"user": user or _user(), "host": host or socket.gethostname(), "pid": os.getpid()}


@contextlib.contextmanager
def held(home, who, wait_s):
    """The board for oneself.

    Args:
        home: The agent's folder; None where there is none.
        who: From `owner`.
        wait_s: How long to wait for others.

    Raises:
        JobError: `board_busy`, with the name of the one who measures.
    """
    end = time.monotonic() + wait_s
    places = [os.path.join(tempfile.gettempdir(), _NAME)]
    if home:
        places.append(os.path.join(home, "device.lock"))
    opened = []
    try:
        for place in places:
            number = _open(place)
            if number is None:
                continue  # A place where nothing can be written cannot be shared either.
            opened.append(number)
            _wait(number, end, wait_s)
            _write(number, dict(who, since=int(time.time())))
        yield
    finally:
        for number in opened:
            os.close(number)


def _open(place):
    """The file, also where it is another user's; None where that is impossible.

    No O_CREAT on a file that exists: kernels refuse that for other users' files in /tmp. No
    symbolic link is followed: anybody can write there.
    """
    for _ in range(2):
        for mode in (os.O_RDWR, os.O_RDONLY):
            try:
                return os.open(place, mode | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    break
        try:
            number = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno != errno.EEXIST:
                return None
            continue
        os.fchmod(number, 0o666)
        return number
    return None


def _wait(number, end, wait_s):
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (IOError, OSError) as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return  # A file system without locks: nobody else could hold one either.
        if time.monotonic() >= end:
            text = "the board is measuring for %s, also after %g s of waiting"
            hint = "wait until that run has ended, or ask them; then run the same command again"
            raise JobError("board_busy", text % (_holder(number), wait_s), hint)
        time.sleep(_POLL_S)


def _holder(number):
    """Who holds it, as far as the file says: its text was written by somebody else."""
    try:
        found = json.loads(os.pread(number, 4096, 0).decode("utf-8", "replace"))
        user, host = str(found["user"])[:_LONGEST], str(found["host"])[:_LONGEST]
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(found["since"])))
        text = "%s at %s (process %d, since %s)" % (user, host, int(found["pid"]), since)
    except (IOError, OSError, ValueError, KeyError, TypeError, OverflowError):
        return "somebody else"
    return "".join(letter for letter in text if letter.isprintable())


def _write(number, who):
    try:
        os.ftruncate(number, 0)
        os.pwrite(number, json.dumps(who).encode("utf-8"), 0)
    except (IOError, OSError):
        pass  # Opened for reading only: the lock holds all the same.


def _user():
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "uid %d" % os.getuid()
