"""Content digests: how files, arrays and texts are named, everywhere the same way."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def of_bytes(data: bytes) -> str:
    """`sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def of_text(text: str) -> str:
    """The digest of the text in UTF-8."""
    return of_bytes(text.encode())


def of_file(path: Path) -> str:
    """The digest of a file's bytes, read in pieces."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def of_array(array: npt.NDArray[Any]) -> str:
    """The digest of dtype, shape and values."""
    head = f"{array.dtype.str}{array.shape}".encode()
    return of_bytes(head + np.ascontiguousarray(array).tobytes())


def short(digest: str) -> str:
    """The first twelve digits, for file names and people."""
    return digest.removeprefix("sha256:")[:12]
