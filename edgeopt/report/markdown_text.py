"""Texts and tables as Markdown shows them as they are."""

from collections.abc import Iterable


def row(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, also in a table."""
    flat = " ".join(str(text).split())
    for character in "\\|*_<`":
        flat = flat.replace(character, f"\\{character}")
    return flat.replace("](", "]\\(")
