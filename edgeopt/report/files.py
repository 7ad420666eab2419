"""A report as files in a folder."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeopt.errors import StorageError
from edgeopt.report.markdown import markdown
from edgeopt.report.page import page
from edgeopt.report.table import table


def write_report(document: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """Write all formats, each aside and renamed; the folder is created where missing.

    Returns:
        `html`, `markdown`, `json`, `csv` to the path of each.

    Raises:
        StorageError: A file cannot be written; an earlier report stays whole.
    """
    texts = {
        "html": ("report.html", page(document)),
        "markdown": ("report.md", markdown(document)),
        "json": ("report.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n"),
        "csv": ("trials.csv", table(document)),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return {form: _write(folder / name, text) for form, (name, text) in texts.items()}
    except OSError as error:
        raise StorageError(
            f"the report cannot be written ({error.strerror})",
            where=str(folder),
            hint="free disk space or choose another folder with --out",
        ) from error


def _write(path: Path, text: str) -> Path:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8", newline="\n")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path
