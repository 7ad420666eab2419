"""A report as files in a folder."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeopt.errors import StorageError
from edgeopt.report.figures import drawings
from edgeopt.report.formats import as_json
from edgeopt.report.markdown import markdown
from edgeopt.report.page import page
from edgeopt.report.table import table

_SAFE = re.compile(r"[^\w.-]")
"""What a device's name may hold and a file's name may not."""


def write_report(document: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """Write all formats, each aside and renamed; the folder is created where missing.

    Returns:
        `html`, `markdown`, `json`, `csv` to the path of each, and, where figures can be drawn,
        their file names (`front-DEVICE.svg`, `.png`).

    Raises:
        StorageError: A file cannot be written; an earlier report stays whole.
    """
    texts: dict[str, tuple[str, str | bytes]] = {
        "html": ("report.html", page(document)),
        "markdown": ("report.md", markdown(document)),
        "json": ("report.json", as_json(document)),
        "csv": ("trials.csv", table(document)),
    }
    for name, drawn in drawings(document).items():
        texts[name] = (_SAFE.sub("-", name), drawn)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return {form: write_file(folder / name, content) for form, (name, content) in texts.items()}
    except OSError as error:
        raise StorageError(
            f"the report cannot be written ({error.strerror})",
            where=str(folder),
            hint="free disk space or choose another folder with --out",
        ) from error


def write_file(path: Path, content: str | bytes) -> Path:
    """Write one file aside and rename it.

    Raises:
        OSError: It cannot be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(content.encode() if isinstance(content, str) else content)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path
