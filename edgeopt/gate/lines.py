"""On which line of a TOML file a table or a key stands.

Parsers of TOML keep no positions. Headers and keys stand at the beginning of a line in nearly
every file that people write; what is written otherwise (inline tables) gets the line of the
nearest table around it.
"""

import re
from collections.abc import Mapping

Place = tuple[str | int, ...]
_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*=")
_FENCES = ('"""', "'''")


def lines_of(text: str) -> Mapping[Place, int]:
    """Line numbers, from 1, by table and key: `("gate", "budget", 0, "max")`."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if fence:
            fence = "" if fence in line else fence
            continue
        fence = next((f for f in _FENCES if line.count(f) % 2), "")
        header = _HEADER.match(line)
        if header:
            table = _table(header.group(2), counts, many=header.group(1) == "[[")
            found.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key:
            found.setdefault((*table, key.group(1).strip("\"'")), number)
    return found


def line_of(found: Mapping[Place, int], *place: str | int) -> int:
    """The line of a place, or of the nearest table around it; 1 where nothing is known."""
    for end in range(len(place), 0, -1):
        if place[:end] in found:
            return found[place[:end]]
    return 1


def _table(name: str, counts: dict[Place, int], *, many: bool) -> Place:
    """The place of a header; of an array's table its number within the array is part."""
    place: Place = ()
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for index, part in enumerate(parts):
        place = (*place, part)
        if index == len(parts) - 1 and many:
            counts[place] = counts.get(place, 0) + 1
        if place in counts:
            place = (*place, counts[place] - 1)
    return place
