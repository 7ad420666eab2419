"""Texts and tables as Markdown shows them as they are."""

from collections.abc import Iterable, Sequence


def row(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, also in a table."""
    flat = " ".join(str(text).split())
    for character in "\\|*_<`":
        flat = flat.replace(character, f"\\{character}")
    return flat.replace("](", "]\\(")


def folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that a reader opens; none where there is nothing in them."""
    if not any(lines):
        return []
    return ["", "<details>", f"<summary>{plain(title)}</summary>", *lines, "", "</details>"]
