"""The agent's folder on the device; there is none where the host did not name one."""

import os
import shutil
import tempfile


def folder():
    """Its path, made where it is missing; None without one, or where it cannot be made."""
    named = os.environ.get("EDGEOPT_CACHE")
    if not named:
        return None
    place = os.path.abspath(os.path.expanduser(named))
    return place if make(place) else None


def make(place):
    """Make a folder with its parents; whether it is there."""
    try:
        os.makedirs(place, mode=0o700)
    except (IOError, OSError):
        return os.path.isdir(place)
    return True


def write_aside(place, data):
    """Write a file under another name, and rename it: it is there whole, or not at all."""
    # Not named by a process: in containers that share the folder two have the same number.
    number, part = tempfile.mkstemp(prefix=".part-", dir=os.path.dirname(place))
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(part, place)
    except (IOError, OSError):
        if os.path.exists(part):
            os.remove(part)
        raise


def paths(place):
    """The files below a folder, or the file itself."""
    if not os.path.isdir(place) or os.path.islink(place):
        return [place]
    return [os.path.join(top, name) for top, _, names in os.walk(place) for name in names]


def remove(place):
    """Remove a file or a folder; the bytes that this frees: a file with another name frees none.

    Raises:
        OSError: A file cannot be removed.
    """
    freed = 0
    for path in paths(place):
        try:
            found = os.lstat(path)
            os.remove(path)
        except FileNotFoundError:
            continue  # Another agent was faster.
        freed += found.st_size if found.st_nlink == 1 else 0
    shutil.rmtree(place, ignore_errors=True)
    return freed
