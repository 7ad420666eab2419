"""Lines of a page on a terminal: wrapped texts, lists and tables in plain characters."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 100
LINES = 25

Document = Mapping[str, Any]
Point = Mapping[str, Any]


def wrapped(title: str, text: str, limit: int, width: int = WIDTH) -> list[str]:
    """The text beside its title, cut between words where it is longer than the lines allow."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"{title:9}",
        subsequent_indent=" " * 9,
        max_lines=limit,
        placeholder=" …",
        break_long_words=False,
        break_on_hyphens=False,
    )


def wrapped_head(text: str, width: int) -> list[str]:
    """The first line of a page, without a title; cut where it is longer than a line."""
    return textwrap.wrap(text, width, max_lines=1, placeholder=" …", break_long_words=False)


def fitting(blocks: Sequence[tuple[int, list[str]]]) -> list[str]:
    """The lines of ranked blocks in their order, without the least important that do not fit.

    The highest rank goes first, and of equal ones the last; what has rank 0 always stays.
    """
    kept = list(blocks)
    while sum(len(lines) for _, lines in kept) > LINES:
        weakest = max(rank for rank, _ in kept)
        if not weakest:
            break
        kept.pop(max(index for index, (rank, _) in enumerate(kept) if rank == weakest))
    return [line for _, lines in kept for line in lines]


def listed(title: str, sentences: Sequence[str], limit: int, width: int = WIDTH) -> list[str]:
    """As many whole sentences as fit into the lines; the report has the others."""
    if not sentences:
        return []
    lines: list[str] = []
    for sentence in sentences:
        room = limit - len(lines)
        lines += wrapped(title if not lines else "", sentence, min(room, 2), width)
        if len(lines) >= limit:
            break
    return lines


def table(
    rows: Sequence[Sequence[str]], spare: Sequence[str] = (), width: int = WIDTH
) -> list[str]:
    """Columns side by side, indented; the first row is the head.

    Args:
        rows: Cells of equal number.
        spare: Heads of columns that are left out, one by one, where a line would be too long.
        width: Characters that a line may have.
    """
    lines = _side_by_side(rows)
    for head in spare:
        if max(map(len, lines)) <= width or head not in rows[0]:
            continue
        place = list(rows[0]).index(head)
        rows = [[cell for index, cell in enumerate(row) if index != place] for row in rows]
        lines = _side_by_side(rows)
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def _side_by_side(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return [f"  {line}".rstrip() for line in lines]


def failed(failures: Sequence[Mapping[str, Any]], width: int = WIDTH) -> list[str]:
    """One line on what failed, with an example."""
    if not failures:
        return []
    stages = ", ".join(f"{each['count']} in {each['stage']}" for each in failures)
    first = failures[0]["examples"][0]
    return wrapped("failed", f"{stages}; such as {first['id']}: {first['reason']}", 1, width)


def quality_of(document: Document) -> str:
    """The metric to be kept high."""
    objectives = document["study"]["objectives"]
    return next((o["metric"] for o in objectives if o["direction"] == "max"), "accuracy")


def metric_text(point: Point, metric: str) -> str:
    """A metric as the document says it."""
    found = point["metrics"].get(metric)
    return "absent" if found is None else str(found["text"])


def taken(document: Document, device: str) -> Point | None:
    """What to take on a device."""
    name = document["verdict"][device]["take"]
    return next((p for p in document["candidates"][device] if p["id"] == name), None)


def named_rows(document: Document, device: str) -> list[tuple[str, Point]]:
    """The given model, what would be shipped today and the pick; what is the same stands once."""
    named = [
        ("given", document["baseline"][device]),
        ("shipped today", document["shipped_today"][device]),
        ("TAKE", taken(document, device)),
    ]
    rows: list[tuple[str, Point]] = []
    for name, point in named:
        held = [index for index, (_, other) in enumerate(rows) if _same(other, point)]
        if held:
            merged = f"{rows[held[0]][0]} = {name}".replace("shipped today", "shipped")
            rows[held[0]] = (merged, rows[held[0]][1])
        elif point is not None:
            rows.append((name, point))
    return rows


def _same(one: Point, other: Point | None) -> bool:
    return other is not None and one["id"] == other["id"]
