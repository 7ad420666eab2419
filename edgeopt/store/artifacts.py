"""`ArtifactStore`: files named by what is in them.

    objects/1f/1f9a22….onnx      sound or absent, never half written
    aside/                       being written; what a kill leaves here is swept on opening

A file is written aside, synced, and renamed, so a name in `objects` never points to a part of a
file. What the disk spoils later is noticed on reading: the name says what the content must be.
"""

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from edgeopt.core import digest as digests
from edgeopt.errors import StorageError
from edgeopt.store import faults

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SUFFIX = re.compile(r"(\.[A-Za-z0-9_]+)*")
_PIECE = 1 << 20


class ArtifactStore:
    """Content-addressed files in a folder; implements core's `Artifacts`.

    Several processes may use one folder.

    Args:
        folder: Created where missing.

    Raises:
        StorageError: The folder cannot be created or written.
    """

    def __init__(self, folder: Path) -> None:
        self._objects = folder / "objects"
        self._aside = folder / "aside"
        self._sound: set[Path] = set()
        with faults.translated(folder):
            self._objects.mkdir(parents=True, exist_ok=True)
            self._aside.mkdir(parents=True, exist_ok=True)
            _sweep(self._aside)

    def path(self, digest: str) -> Path | None:
        """Where the file lies; None where it is not stored.

        Each file's content is compared with its name once in the life of this store; a damaged
        file is removed and counts as not stored, so that whoever needs it makes it again.
        """
        found = self._find(digest)
        if found is None or found in self._sound:
            return found
        with faults.translated(found):
            if digests.of_file(found) == digest:
                self._sound.add(found)
                return found
            found.unlink(missing_ok=True)
        return self.path(digest)

    def verify(self, digest: str) -> Path:
        """The path of a file whose content was compared with its digest just now.

        Raises:
            StorageError: It is not stored, or its content is another.
        """
        found = self._find(digest)
        if found is None:
            raise StorageError(
                f"the artifact {digests.short(digest)} is missing",
                where=str(self._objects),
                hint="run the study again: it makes it anew",
            )
        with faults.translated(found):
            actual = digests.of_file(found)
        if actual != digest:
            self._sound.discard(found)
            raise StorageError(
                f"the file is damaged: its content is {digests.short(actual)}",
                where=str(found),
                hint="delete the file and run the study again: it makes it anew; check the disk",
            )
        return found

    def store(self, data: bytes, suffix: str) -> str:
        """Keep bytes; returns their digest. On the disk when this returns.

        Raises:
            StorageError: The disk is full or the folder read-only; nothing is left half written.
        """
        digest = digests.of_bytes(data)
        if self._sound_already(digest, suffix):
            return digest
        pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
        return self._write(pieces, suffix)

    def store_file(self, path: Path, suffix: str) -> str:
        """Keep a copy of one file (not of external data beside it); returns its digest.

        Raises:
            StorageError: The file cannot be read, or the copy not be written.
        """
        with faults.translated(path):
            if self._sound_already(digests.of_file(path), suffix):
                return digests.of_file(path)
            with path.open("rb") as stream:
                return self._write(iter(lambda: stream.read(_PIECE), b""), suffix)

    def _find(self, digest: str) -> Path | None:
        folder = self._place(digest, "").parent
        name = digest.removeprefix("sha256:")
        return min(folder.glob(f"{name}*"), default=None)

    def _place(self, digest: str, suffix: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is not a digest")
        if not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"{suffix!r} is not a suffix such as '.onnx'")
        name = digest.removeprefix("sha256:")
        return self._objects / name[:2] / f"{name}{suffix}"

    def _sound_already(self, digest: str, suffix: str) -> bool:
        place = self._place(digest, suffix)
        with faults.translated(place):
            if place in self._sound and place.exists():
                return True
            if place.exists() and digests.of_file(place) == digest:
                self._sound.add(place)
                return True
        return False

    def _write(self, pieces: Iterable[bytes], suffix: str) -> str:
        with faults.translated(self._objects):
            handle, name = tempfile.mkstemp(dir=self._aside)
            aside = Path(name)
            try:
                digest = _write_pieces(handle, pieces)
                place = self._place(digest, suffix)
                place.parent.mkdir(exist_ok=True)
                aside.chmod(0o644)
                aside.replace(place)
                _sync_folder(place.parent)
            except OSError:
                aside.unlink(missing_ok=True)
                raise
            finally:
                os.close(handle)
        self._sound.add(place)
        return digest


def _write_pieces(handle: int, pieces: Iterable[bytes]) -> str:
    """Write and sync; the lock tells a sweep that the file is being written."""
    fcntl.flock(handle, fcntl.LOCK_SH)
    content = hashlib.sha256()
    for piece in pieces:
        content.update(piece)
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(handle, rest) :]
    os.fsync(handle)
    return "sha256:" + content.hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(folder: Path) -> None:
    """Remove files that no living process is writing: nobody holds their lock.

    Files younger than their writer's first instruction after creating them would be seen
    unlocked, so an empty file stays.
    """
    for leftover in folder.iterdir():
        try:
            handle = os.open(leftover, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_size:
                leftover.unlink(missing_ok=True)
        except BlockingIOError:
            continue
        finally:
            os.close(handle)
