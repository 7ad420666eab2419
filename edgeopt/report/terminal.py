"""The end of a run on a terminal: one page, plain text, at most 25 lines for one device."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH = 100
LINES = 25
RUNNERS_UP = 2

Document = Mapping[str, Any]
Point = Mapping[str, Any]


def terminal(document: Document) -> str:
    """The page. Every number in it is a text or a number of the document."""
    study = document["study"]
    lines = [f"{study['model']} ({study['id']}): {document['ledger']['text']}"]
    if document["interrupted"]:
        lines[0] += ", interrupted"
    for device in study["devices"]:
        lines += _device(document, device)
    lines += _failed(document["failures"])
    if document["report"]:
        lines.append(f"report   {document['report']}")
    lines += [f"next     {step}" for step in _steps(document)]
    return "\n".join(lines) + "\n"


def _device(document: Document, device: str) -> list[str]:
    verdict = document["verdict"][device]
    lines = [
        f"{device}:",
        *_table(_rows(document, device), _quality(document)),
        *_wrapped("verdict", verdict["text"], 3),
    ]
    taken = _taken(document, device)
    if taken is not None and taken["actions"]:
        lines += _wrapped("recipe", taken["summary"], 1)
        lines += [f"model    {taken['model']}"] if taken["model"] else []
    if taken is not None and taken["lowered"]:
        lines += _wrapped("ran", f"{taken['id']}: {taken['lowered']['text']}", 1)
    for title, limit in (("in_vain", 3), ("unknown", 3), ("checked", 2)):
        lines += _listed(title.replace("_", " "), document[title][device], limit)
    lines += _listed("nearest", verdict["nearest"], 2)
    return lines


def _quality(document: Document) -> str:
    objectives = document["study"]["objectives"]
    return next((o["metric"] for o in objectives if o["direction"] == "max"), "accuracy")


def _taken(document: Document, device: str) -> Point | None:
    name = document["verdict"][device]["take"]
    return next((p for p in document["candidates"][device] if p["id"] == name), None)


def _rows(document: Document, device: str) -> list[tuple[str, Point]]:
    """The given model, what would be shipped today, the pick, and the runners-up."""
    taken = _taken(document, device)
    named = [
        ("given", document["baseline"][device]),
        ("shipped today", document["shipped_today"][device]),
        ("TAKE", taken),
    ]
    rows: list[tuple[str, Point]] = []
    for name, point in named:
        held = [index for index, (_, other) in enumerate(rows) if _same(other, point)]
        if held:
            merged = f"{rows[held[0]][0]} = {name}".replace("shipped today", "shipped")
            rows[held[0]] = (merged, rows[held[0]][1])
        elif point is not None:
            rows.append((name, point))
    shown = {point["id"] for _, point in rows}
    return [*rows, *(("runner-up", p) for p in _runners_up(document, device, shown))]


def _same(one: Point, other: Point | None) -> bool:
    return other is not None and one["id"] == other["id"]


def _runners_up(document: Document, device: str, shown: set[str]) -> list[Point]:
    picked = [pick["id"] for pick in document["picks"][device].values() if pick]
    front = [p for p in document["fronts"][device] if p["id"] not in shown]
    front.sort(key=lambda p: p["id"] not in picked)
    return front[:RUNNERS_UP]


def _table(rows: Sequence[tuple[str, Point]], quality: str) -> list[str]:
    if not rows:
        return []
    head = ("", "id", "latency", "against given", "size", quality)
    cells = [head, *(_cells(name, point, quality) for name, point in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return [f"  {line}".rstrip() for line in lines]


def _cells(name: str, point: Point, quality: str) -> tuple[str, ...]:
    ratio = point["ratio"]
    return (
        name,
        point["id"],
        _text(point, "latency"),
        "" if ratio is None else ratio["short"],
        _text(point, "size"),
        _text(point, quality).partition(" [")[0],
    )


def _text(point: Point, metric: str) -> str:
    found = point["metrics"].get(metric)
    return "absent" if found is None else str(found["text"])


def _listed(title: str, sentences: Sequence[str], limit: int) -> list[str]:
    """As many whole sentences as fit into the lines; the report has the others."""
    if not sentences:
        return []
    lines: list[str] = []
    for sentence in sentences:
        room = limit - len(lines)
        lines += _wrapped(title if not lines else "", sentence, min(room, 2))
        if len(lines) >= limit:
            break
    return lines


def _failed(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    if not failures:
        return []
    stages = ", ".join(f"{each['count']} in {each['stage']}" for each in failures)
    first = failures[0]["examples"][0]
    return _wrapped("failed", f"{stages}; such as {first['id']}: {first['reason']}", 1)


def _steps(document: Document) -> Iterable[str]:
    return dict.fromkeys(found["next"] for found in document["verdict"].values())


def _wrapped(title: str, text: str, limit: int) -> list[str]:
    """The text beside its title, cut between words where it is longer than the lines allow."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{title:9}",
        subsequent_indent=" " * 9,
        max_lines=limit,
        placeholder=" …",
        break_long_words=False,
        break_on_hyphens=False,
    )
