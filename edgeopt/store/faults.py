"""What the database or the disk reports, as an error that a person can act on."""

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy.exc

from edgeopt.errors import StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def of_os(error: OSError, path: Path) -> StorageError:
    """The error of a file operation."""
    if error.errno in _FULL:
        return StorageError(
            f"there is no room left to write ({error.strerror})",
            where=str(path),
            hint="free disk space and run the same command again: it goes on from here",
        )
    if error.errno in _FORBIDDEN:
        return StorageError(
            f"the folder cannot be written to ({error.strerror})",
            where=str(path),
            hint="make it writable or choose another folder with --out",
        )
    return StorageError(
        f"cannot be used as a folder for results ({error.strerror})",
        where=str(path),
        hint="choose another folder with --out",
    )


def of_database(error: sqlalchemy.exc.DBAPIError, path: Path) -> StorageError:
    """The error of a statement."""
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    text = str(error.orig)
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return damaged(path, text)
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN")):
        return StorageError(
            f"the store cannot be opened for writing ({text})",
            where=str(path),
            hint="make the file and its folder writable or choose another folder with --out",
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return StorageError(
            f"the store cannot be written ({text})",
            where=str(path),
            hint="free disk space and run the same command again: it goes on from here",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StorageError(
            f"another process keeps the store busy ({text})",
            where=str(path),
            hint="wait for it to end, or give this run a folder of its own with --out",
        )
    return StorageError(
        f"the store does not answer ({text})",
        where=str(path),
        hint="choose another folder with --out; if it happens there too, report it",
    )


def damaged(path: Path, why: str) -> StorageError:
    """The file is there but cannot be read as a store."""
    return StorageError(
        f"the store is damaged ({why})",
        where=str(path),
        hint="move the file away (its models stay in the folder beside it) and run again",
    )


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn errors of the disk and the database inside the block into StorageError."""
    try:
        yield
    except sqlalchemy.exc.DBAPIError as error:
        raise of_database(error, path) from error
    except sqlite3.Error as error:
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise of_os(error, path) from error
