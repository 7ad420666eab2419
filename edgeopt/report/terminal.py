"""The end of a run on a terminal: one page, plain text, at most 25 lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.report.devices import metric_title
from edgeopt.report.lines import (
    WIDTH,
    failed,
    fitting,
    listed,
    metric_text,
    named_rows,
    quality_of,
    table,
    taken,
    wrapped,
    wrapped_head,
)
from edgeopt.report.terminal_devices import several

RUNNERS_UP = 2

Document = Mapping[str, Any]
Block = tuple[int, list[str]]
Point = Mapping[str, Any]


def terminal(document: Document, width: int = WIDTH) -> str:
    """The page. Every number in it is a text or a number of the document.

    Args:
        document: The report's.
        width: Characters of a line; 80 and more.
    """
    study = document["study"]
    head = f"{study['model']} ({study['id']}): {document['ledger']['text']}"
    if document["interrupted"]:
        head += ", interrupted"
    steps = list(dict.fromkeys(found["next"] for found in document["verdict"].values()))
    if document["across"] is not None:
        return "\n".join(several(document, head, steps, width)) + "\n"
    blocks: list[Block] = [(0, wrapped_head(head, width))]
    for device in study["devices"]:
        blocks += _device(document, device, width)
    blocks.append((7, failed(document["failures"], width)))
    blocks.append((0, [f"report   {document['report']}"] if document["report"] else []))
    blocks.append((0, [f"next     {step}" for step in steps]))
    return "\n".join(fitting(blocks)) + "\n"


def _device(document: Document, device: str, width: int) -> list[Block]:
    verdict, about = document["verdict"][device], document["devices"][device]
    label = f" ({about['text']})" if about["emulated"] or about["energy_scopes"] else ""
    energy = metric_title("energy", about)
    blocks: list[Block] = [
        (0, [f"{device}:{label}"]),
        (0, _table(_rows(document, device), quality_of(document), energy, width)),
        (0, wrapped("verdict", verdict["text"], 3 if width >= WIDTH else 4, width)),
    ]
    chosen = taken(document, device)
    if chosen is not None and chosen["actions"]:
        blocks.append((2, wrapped("recipe", chosen["summary"], 1, width)))
        blocks.append((3, [f"model    {chosen['model']}"] if chosen["model"] else []))
    if chosen is not None and chosen["lowered"]:
        text = f"{chosen['id']}: {chosen['lowered']['text']}"
        blocks.append((1, wrapped("ran", text, 1, width)))
        blocks.append((3, listed("", document["integers"][device][1:], 2, width)))
    grown = document["progress"][device]
    if grown is not None and grown["text"]:
        blocks.append((4, wrapped("beside", grown["text"], 2, width)))
    for title, limit, rank in (
        ("pruned", 1, 5),
        ("in_vain", 3, 5),
        ("unknown", 3, 4),
        ("checked", 2, 6),
    ):
        lines = listed(title.replace("_", " "), document[title][device], limit, width)
        blocks.append((rank, lines))
    blocks.append((1, listed("nearest", verdict["nearest"], 2, width)))
    return blocks


def _rows(document: Document, device: str) -> list[tuple[str, Point]]:
    """The given model, what would be shipped today, the pick, and the runners-up."""
    rows = named_rows(document, device)
    shown = {point["id"] for _, point in rows}
    return [*rows, *(("runner-up", p) for p in _runners_up(document, device, shown))]


def _runners_up(document: Document, device: str, shown: set[str]) -> list[Point]:
    picked = [pick["id"] for pick in document["picks"][device].values() if pick]
    front = [p for p in document["fronts"][device] if p["id"] not in shown]
    front.sort(key=lambda p: p["id"] not in picked)
    return front[:RUNNERS_UP]


def _table(rows: Sequence[tuple[str, Point]], quality: str, energy: str, width: int) -> list[str]:
    """Where energy is known, its column takes the place of the latency's interval."""
    if not rows:
        return []
    known = any("energy" in point["metrics"] for _, point in rows)
    head = ("", "id", "latency", "against given", "size", quality)
    if not known:
        cells = [head, *(_cells(name, point, quality) for name, point in rows)]
        if max(map(len, table(cells, width=10 * WIDTH))) > width:
            bare = (_cells(name, point, quality, interval=False) for name, point in rows)
            return table([head, *bare], width=width)
        return table(cells, width=width)
    cells = [
        (*_cells(name, point, quality, interval=False), _bare(point, "energy"))
        for name, point in rows
    ]
    return table([(*head, energy), *cells], spare=("size",), width=width)


def _bare(point: Point, metric: str) -> str:
    return metric_text(point, metric).partition(" [")[0]


def _cells(name: str, point: Point, quality: str, *, interval: bool = True) -> tuple[str, ...]:
    ratio = point["ratio"]
    return (
        name,
        point["id"],
        metric_text(point, "latency") if interval else _bare(point, "latency"),
        "" if ratio is None else ratio["short"],
        metric_text(point, "size"),
        _bare(point, quality),
    )
