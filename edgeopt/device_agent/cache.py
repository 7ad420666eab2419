"""The agent's folder on the device; there is none where the host did not name one."""

import os


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
    part = os.path.join(os.path.dirname(place), ".part-%d" % os.getpid())
    try:
        with open(part, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(part, place)
    except (IOError, OSError):
        if os.path.exists(part):
            os.remove(part)
        raise
