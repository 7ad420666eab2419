"""Weights and colours for the page of a terminal; the words are the same without them."""

import re

_BOLD, _DIM, _GREEN, _END = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[0m"
_TITLE = re.compile(r"^([a-z][a-z ]{0,7})(?=\s)")
_QUIET = ("failed", "checked", "unknown", "in vain")


def styled(page: str) -> str:
    """The page with its first line, verdicts and the taken row in bold, side notes dimmed."""
    lines = page.split("\n")
    title = ""
    for index, line in enumerate(lines):
        found = _TITLE.match(line)
        title = found.group(1).strip() if found else title if line.startswith(" " * 9) else ""
        lines[index] = _line(line, title, first=index == 0)
    return "\n".join(lines)


def _line(line: str, title: str, *, first: bool) -> str:
    if not line.strip():
        return line
    if first or title == "verdict":
        return f"{_BOLD}{line}{_END}"
    if "TAKE" in line:
        return f"{_BOLD}{_GREEN}{line}{_END}"
    return f"{_DIM}{line}{_END}" if title in _QUIET else line
