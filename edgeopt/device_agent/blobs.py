"""Files from the host: kept by digest, put together from parts, forgotten when space is short.

    blobs/<sha256>        parts of files, checked when they arrived
    files/<key>/<name>    files made of them, with the external data beside the model

What is in use is never forgotten; a file that was is sent again, since the host asks each time.
"""

import collections
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time

import cache
from failures import JobError

_DIGEST = re.compile(r"[0-9a-f]{64}$")
_QUOTA = 4 << 30
_SPARE = 1 << 20
_RECENT = 12
_YOUNG_S = 60.0
_CHUNK = 1 << 20
PART = ".part-"


class Blobs(object):
    """The store.

    Args:
        home: The agent's folder.
    """

    def __init__(self, home):
        self._home = home
        self._blobs = os.path.join(home, "blobs")
        self._files = os.path.join(home, "files")
        self._checked = set()
        # Of the present session: never forgotten.
        self._recent = collections.OrderedDict()
        for place in (self._blobs, self._files):
            cache.make(place)
            sweep(place)

    def have(self, arguments):
        """The place of a file where all of its parts are here, or else the missing ones.

        Arguments: key, its folder; files, each {name, size, digest, parts: [[blob, offset,
        bytes]]}; blobs, their sizes by digest.

        Raises:
            JobError: `disk_full`, `bad_request`, `cache_failed`.
        """
        key, files, blobs = _checked(arguments)
        self._use(key)
        place = os.path.join(self._files, key, files[0]["name"])
        try:
            if self._is_laid(key, files):
                os.utime(os.path.join(self._files, key), None)
                return {"ok": True, "place": place}
            missing = [each for each in blobs if not self._has(each, blobs[each])]
            self._make_room(key, files, blobs, missing)
            if not missing:
                missing = self._lay(key, files, blobs)
        except (IOError, OSError) as error:
            text = "the file cannot be kept on the device: %s" % (error.strerror or error)
            hint = "free space there, or set cache_dir of the device"
            raise JobError("cache_failed", text, hint) from error
        return {"ok": True, "missing": missing} if missing else {"ok": True, "place": place}

    def missing(self, arguments):
        """Places in a job's arguments that are not here any more; the others count as used."""
        gone, prefix = [], self._files + os.sep
        for value in _texts(arguments):
            if not value.startswith(prefix):
                continue
            if os.path.exists(value):
                key = value[len(prefix) :].partition(os.sep)[0]
                self._use(key)
                os.utime(os.path.join(self._files, key), None)
            else:
                gone.append(value)
        return gone

    def _use(self, key):
        self._recent.pop(key, None)
        self._recent[key] = True
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def _has(self, digest, size):
        place = os.path.join(self._blobs, digest)
        try:
            if os.path.getsize(place) != size:
                return False
            os.utime(place, None)
        except (IOError, OSError):
            return False
        return True

    def _is_laid(self, key, files):
        """Whether the files are there; their digests are checked once a session."""
        folder = os.path.join(self._files, key)
        for each in files:
            place = os.path.join(folder, each["name"])
            if not os.path.isfile(place) or os.path.getsize(place) != each["size"]:
                return False
        if key not in self._checked:
            if any(_digest(os.path.join(folder, e["name"])) != e["digest"] for e in files):
                shutil.rmtree(folder, ignore_errors=True)
                return False
            self._checked.add(key)
        return True

    def _make_room(self, key, files, blobs, missing):
        """Forget what was used longest ago until this fits, and the quota holds.

        Raises:
            JobError: `disk_full`.
        """
        needed = sum(blobs[each] for each in missing)
        needed += sum(each["size"] for each in files if len(each["parts"]) > 1)
        free, used = _free(self._home), self._used()
        quota = _number("EDGEOPT_QUOTA_BYTES", min(_QUOTA, (free + used) // 2))
        over = max(used + needed - quota, needed + _SPARE - free)
        if over > 0:
            self._forget(over, set(blobs))
        free = _free(self._home)
        if needed + _SPARE > free:
            text = "not enough space on the device: %d bytes are needed in %s, %d are free"
            hint = "free space there, or set cache_dir of the device to a larger disk"
            raise JobError("disk_full", text % (needed + _SPARE, self._home, free), hint)

    def _used(self):
        seen = {}
        for folder in (self._blobs, self._files):
            for place, _, _ in entries(folder):
                for path in cache.paths(place):
                    found = os.lstat(path)
                    seen[found.st_ino] = found.st_size
        return sum(seen.values())

    def _forget(self, count, kept):
        """Remove what frees so many bytes: files first, they are made again from blobs."""
        freed = 0
        for folder in (self._files, self._blobs):
            for place, _, _ in sorted(entries(folder), key=lambda entry: entry[2]):
                if freed >= count:
                    return
                name = os.path.basename(place)
                if name in kept or name in self._recent or name.startswith(PART):
                    continue
                freed += cache.remove(place)

    def _lay(self, key, files, blobs):
        """Make the files from their blobs; blobs that turn out damaged, empty when all is well."""
        part = tempfile.mkdtemp(prefix=PART, dir=self._files)
        try:
            for each in files:
                place = os.path.join(part, each["name"])
                if not cache.make(os.path.dirname(place)):
                    raise OSError("a folder cannot be made: " + os.path.dirname(place))
                if self._join(each, place) != each["digest"]:
                    return self._damaged(blobs)
            folder = os.path.join(self._files, key)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        self._checked.add(key)
        return []

    def _join(self, described, place):
        """One file from its parts, or a second name of its only blob; returns its digest."""
        parts = described["parts"]
        if len(parts) == 1 and self._link(parts[0], described["size"], place):
            return _digest(place)
        digest = hashlib.sha256()
        with open(place, "wb") as target:
            for name, offset, size in parts:
                with open(os.path.join(self._blobs, name), "rb") as source:
                    source.seek(offset)
                    for chunk in _chunks(source, size):
                        digest.update(chunk)
                        target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        return digest.hexdigest()

    def _link(self, part, size, place):
        blob = os.path.join(self._blobs, part[0])
        if part[1] != 0 or os.path.getsize(blob) != size:
            return False
        try:
            os.link(blob, place)
        except (IOError, OSError, NotImplementedError):
            return False  # A file system without links: a copy will do.
        return True

    def _damaged(self, blobs):
        """Remove blobs that are not what their name says.

        Raises:
            JobError: `bad_request`, all are: then the parts do not make the file.
        """
        bad = [each for each in blobs if _digest(os.path.join(self._blobs, each)) != each]
        for each in bad:
            os.remove(os.path.join(self._blobs, each))
        if not bad:
            raise JobError("bad_request", "the parts of this file do not make the file")
        return bad


def sweep(folder):
    """Remove parts whose writers are gone: nobody holds their lock, and they are not brand-new."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        place = os.path.join(folder, name)
        if not name.startswith(PART):
            continue
        try:
            if time.time() - os.path.getmtime(place) < _YOUNG_S:
                continue
            if os.path.isdir(place):
                shutil.rmtree(place, ignore_errors=True)
                continue
            with open(place, "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.remove(place)
        except (IOError, OSError):
            continue  # Still being written, or removed by another agent.


def _checked(arguments):
    """The arguments of `have`.

    Raises:
        JobError: `bad_request`: digests that are none, names that lead out of the folder.
    """
    key, files, blobs = (arguments.get(name) for name in ("key", "files", "blobs"))
    try:
        good = bool(_DIGEST.match(key)) and len(files) > 0
        good = good and all(_DIGEST.match(name) and size >= 0 for name, size in blobs.items())
        for each in files:
            good = good and _is_inside(each["name"]) and bool(_DIGEST.match(each["digest"]))
            good = good and all(part[0] in blobs for part in each["parts"])
            good = good and sum(part[2] for part in each["parts"]) == each["size"]
    except (TypeError, KeyError, IndexError, AttributeError):
        good = False
    if not good:
        raise JobError("bad_request", "this is no description of a file in parts")
    return key, files, blobs


def _is_inside(name):
    parts = name.split("/")
    return "\0" not in name and not any(part in ("", ".", "..") for part in parts)


def _texts(value):
    """All texts in arguments, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            for text in _texts(each):
                yield text
    elif isinstance(value, list):
        for each in value:
            for text in _texts(each):
                yield text


def entries(folder):
    """(place, bytes, time of last use) of everything in a folder."""
    found = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        place = os.path.join(folder, name)
        try:
            size = sum(os.path.getsize(path) for path in cache.paths(place))
            found.append((place, size, os.path.getmtime(place)))
        except (IOError, OSError):
            continue  # Removed by another agent meanwhile.
    return found


def _digest(place):
    digest = hashlib.sha256()
    with open(place, "rb") as stream:
        for chunk in _chunks(stream, os.path.getsize(place)):
            digest.update(chunk)
    return digest.hexdigest()


def _chunks(stream, left):
    while left > 0:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            return
        yield chunk
        left -= len(chunk)


def _free(folder):
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _number(name, otherwise):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise
