"""Raw bytes: the zipapp as `--receive` and `--send`, for what is too large for lines of JSON.

Answers begin with a mark, since a login may print before them. Both end when their pipe does.
"""

import fcntl
import hashlib
import json
import os
import re
import sys
import tempfile

import blobs
import cache
import workfolder
from failures import JobError

MARK = "edgeopt-transfer "
_CHUNK = 1 << 18
_DIGEST = re.compile(r"[0-9a-f]{64}$")


def receive():
    """Blobs from stdin: a line with a list of [digest, bytes], then the bytes of all of them."""
    try:
        home = cache.folder()
        if home is None:
            raise JobError("cache_failed", "the agent's folder cannot be made")
        folder = os.path.join(home, "blobs")
        cache.make(folder)
        wanted = json.loads(sys.stdin.buffer.readline().decode("utf-8") or "[]")
        for digest, size in wanted:
            if not _DIGEST.match(digest):
                raise JobError("bad_request", "no digest: %r" % (digest,))
            if not _receive_one(folder, digest, size):
                return 1  # Cut off: there is nobody to answer.
        _answer({"ok": True, "stored": len(wanted)})
    except JobError as error:
        _answer({"ok": False, "error": error.reply()})
    except (IOError, OSError) as error:
        _answer({"ok": False, "error": _disk_error(error).reply()})
    return 0


def _receive_one(folder, digest, size):
    """Write a blob under a passing name, check it, and give it its own; whether all of it came."""
    number, part = tempfile.mkstemp(prefix=blobs.PART, dir=folder)
    try:
        with os.fdopen(number, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found, left = hashlib.sha256(), size
            while left:
                chunk = sys.stdin.buffer.read(min(left, _CHUNK))
                if not chunk:
                    return False
                stream.write(chunk)
                found.update(chunk)
                left -= len(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        if found.hexdigest() != digest:
            raise JobError("bad_digest", "the bytes that arrived are not those that were sent")
        os.rename(part, os.path.join(folder, digest))
    finally:
        if os.path.exists(part):
            os.remove(part)
    return True


def send(place, limit):
    """A file of the agent's to stdout: its size, its bytes, and the digest of what was sent."""
    try:
        _check_mine(place)
        with open(place, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > limit:
                text = "%s has %d bytes, and the limit is %d" % (place, size, limit)
                raise JobError("too_large", text, "ask for less at once")
            _answer({"ok": True, "size": size})
            found, left = hashlib.sha256(), size
            while left:
                chunk = stream.read(min(left, _CHUNK))
                if not chunk:
                    return 1  # It became shorter: the host sees that bytes are missing.
                found.update(chunk)
                sys.stdout.buffer.write(chunk)
                left -= len(chunk)
            _answer({"ok": True, "digest": found.hexdigest()})
    except JobError as error:
        _answer({"ok": False, "error": error.reply()})
    except BrokenPipeError:
        return 1
    except (IOError, OSError) as error:
        text = "the file cannot be sent: %s" % (error.strerror or error)
        _answer({"ok": False, "error": JobError("no_file", text, "run the job again").reply()})
    return 0


def _check_mine(place):
    """Only files of the agent leave the device.

    Raises:
        JobError: `bad_request`.
    """
    path = os.path.realpath(place)
    home = cache.folder()
    mine = [os.path.realpath(home)] if home else []
    temporary = os.path.realpath(tempfile.gettempdir())
    inside = path[len(temporary) + 1 :] if path.startswith(temporary + os.sep) else ""
    if not inside.startswith(workfolder.PREFIX) and not any(
        path.startswith(each + os.sep) for each in mine
    ):
        raise JobError("bad_request", "not a file of the agent: " + place)


def _disk_error(error):
    text = "the file cannot be kept on the device: %s" % (error.strerror or error)
    home = cache.folder()
    if home:
        disk = os.statvfs(home)
        text += " (%d bytes are free in %s)" % (disk.f_bavail * disk.f_frsize, home)
    return JobError("disk_full", text, "free space there, or set cache_dir of the device")


def _answer(message):
    sys.stdout.buffer.write(("\n" + MARK + json.dumps(message) + "\n").encode("utf-8"))
    sys.stdout.buffer.flush()
