"""Names of the hosts in the user's ssh configuration, for suggestions and completion only.

What a host means (users, keys, jumps) is ssh's own business and is never read here.
"""

import glob
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

_DEPTH = 16  # As deep as ssh itself follows Include.
SYSTEM = Path("/etc/ssh/ssh_config")


def user_config() -> Path:
    """The configuration file that ssh is called with: EDGEOPT_SSH_CONFIG, else the user's own."""
    return Path(os.environ.get("EDGEOPT_SSH_CONFIG") or "~/.ssh/config").expanduser()


def host_aliases(*files: Path) -> tuple[str, ...]:
    """Every plain name after `Host` in these files and in what they include, sorted.

    Patterns and negations are no names. A file that is missing or unreadable has none.

    Args:
        files: Configuration files; the user's and the system's where none is given.
    """
    places = files or (user_config(), SYSTEM)
    return tuple(sorted({name for path in places for name in _names(path, _DEPTH)}))


def _names(path: Path, depth: int) -> Iterator[str]:
    if not depth:
        return
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        keyword, values = _split(line)
        if keyword == "host":
            yield from (name for name in values if not set(name) & set("*?!"))
        elif keyword == "include":
            for pattern in values:
                for found in sorted(glob.glob(str(_included(pattern, path)))):
                    yield from _names(Path(found), depth - 1)


def _split(line: str) -> tuple[str, list[str]]:
    """Keyword in small letters and its values; `Host=name` and quotes are allowed."""
    try:
        words = shlex.split(line.replace("=", " ", 1), comments=True)
    except ValueError:
        return "", []
    return (words[0].lower(), words[1:]) if words else ("", [])


def _included(pattern: str, path: Path) -> Path:
    """Relative patterns are relative to ~/.ssh, or to /etc/ssh in the system's file."""
    return path.parent / Path(pattern).expanduser()
