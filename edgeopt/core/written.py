"""A small text file, whole or as it was: written aside, then put in its place."""

import contextlib
import os
from pathlib import Path

from edgeopt.errors import StorageError


def write_whole(path: Path, text: str, *, what: str, hint: str) -> None:
    """Write a file so that readers and a full disk see the old text or the new, never a part.

    A link stays a link (settings kept elsewhere), the file's mode stays, its folder is made.

    Args:
        path: The file.
        text: All of it.
        what: What to say where it cannot be written, "the lock cannot be written".
        hint: What to do where it cannot be written.

    Raises:
        StorageError: It cannot be written; the old file is as it was.
    """
    place = path.resolve()
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        if place.exists():
            aside.chmod(place.stat().st_mode & 0o777)
        aside.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        told = f"{what}: {error.strerror or error}"
        raise StorageError(told, where=str(path), hint=hint) from error
