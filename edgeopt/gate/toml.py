"""A TOML file of a person: read as editors write it, changed so that all else stays as it was."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit

from edgeopt.core.written import write_whole
from edgeopt.errors import ConfigError

_MARK = "\ufeff"


def read_toml(path: Path, *, hint: str = "") -> tuple[str, dict[str, Any]]:
    """The text, with plain line ends, and what it says.

    Editors of Windows begin a file with a byte order mark and end lines with two characters;
    neither is the project's mistake.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: It cannot be read, with the line where that is known.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8").removeprefix(_MARK)
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise ConfigError(
            "it is no UTF-8 text", where=str(path), hint=hint or "save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        what, line = _said(str(error), text)
        raise ConfigError(f"it is no TOML: {what}", where=f"{path}:{line}", hint=hint) from error
    except OSError as error:
        raise ConfigError(
            f"it cannot be read: {error.strerror or error}", where=str(path), hint=hint
        ) from error


def edit_toml(path: Path, change: Callable[[Any], None]) -> None:
    """Change a file whose comments, order, line ends and byte order mark stay.

    Args:
        path: A file that `read_toml` read.
        change: Told the document of tomlkit, to change it.

    Raises:
        StorageError: It cannot be written; the old file is as it was.
    """
    given = path.read_bytes().decode("utf-8")
    mark = _MARK if given.startswith(_MARK) else ""
    windows = "\r\n" in given
    document = tomlkit.parse(given.removeprefix(_MARK).replace("\r\n", "\n"))
    change(document)
    text = tomlkit.dumps(document)
    write_whole(
        path,
        mark + (text.replace("\n", "\r\n") if windows else text),
        what="the file cannot be written",
        hint="free space there, or see its permissions",
    )


def _said(message: str, text: str) -> tuple[str, int]:
    """tomllib's sentence without the place that ends it, and the line of that place."""
    what, _, place = message.partition(" (at ")
    number = place.removeprefix("line ").partition(",")[0]
    return what, int(number) if number.isdigit() else text.count("\n") + 1
