"""On which line of a TOML file a table or a key stands.

Parsers of TOML keep no positions. Headers and keys stand at the beginning of a line in nearly
every file that people write; what is written otherwise (inline tables) gets the line of the
nearest table around it.
"""

import re
from collections.abc import Mapping

Place = tuple[str | int, ...]
_SINGLE = r'"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'"
_PART = rf"(?:[A-Za-z0-9_-]+|{_SINGLE})"
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_NAME})\s*\]\]?\s*$")
_KEY = re.compile(rf"^\s*({_NAME})\s*=")
_HIDING = re.compile(rf'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|{_SINGLE}|#[^\n]*', re.DOTALL)


def lines_of(text: str) -> Mapping[Place, int]:
    """Line numbers, from 1, by table and key: `("gate", "budget", 0, "max")`.

    Args:
        text: A file that parses; of one that does not, the lines are a guess.
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    depth = 0
    for number, line in enumerate(_HIDING.sub(_bare, text).split("\n"), start=1):
        header = None if depth else _HEADER.match(line)
        if header:
            table = _table(header.group(2), counts, many=header.group(1) == "[[")
            found.setdefault(table, number)
            continue
        key = None if depth else _KEY.match(line)
        if key:
            found.setdefault((*table, *_parts(key.group(1))), number)
        depth = max(0, depth + _opened(line))
    return found


def line_of(found: Mapping[Place, int], *place: str | int) -> int:
    """The line of a place, or of the nearest table around it; 1 where nothing is known."""
    for end in range(len(place), 0, -1):
        if place[:end] in found:
            return found[place[:end]]
    return 1


def _bare(hiding: re.Match[str]) -> str:
    """Strings of one line as they are, since keys may be some; of the rest only the line ends."""
    text = hiding.group()
    if text.startswith("#") or text[:3] in ('"""', "'''"):
        return "\n" * text.count("\n")
    return text


def _opened(line: str) -> int:
    """How many brackets of arrays and inline tables a line leaves open."""
    bare = re.sub(_SINGLE, "", line)
    return sum(bare.count(mark) for mark in "[{") - sum(bare.count(mark) for mark in "]}")


def _parts(name: str) -> Place:
    return tuple(part.strip("\"'") for part in re.findall(_PART, name))


def _table(name: str, counts: dict[Place, int], *, many: bool) -> Place:
    """The place of a header; of an array's table its number within the array is part."""
    place: Place = ()
    parts = _parts(name)
    for index, part in enumerate(parts):
        place = (*place, part)
        if index == len(parts) - 1 and many:
            counts[place] = counts.get(place, 0) + 1
        if place in counts:
            place = (*place, counts[place] - 1)
    return place
