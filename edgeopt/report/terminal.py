"""The end of a run on a terminal: one page, plain text, at most 25 lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.report.devices import metric_title
from edgeopt.report.lines import (
    failed,
    listed,
    metric_text,
    named_rows,
    quality_of,
    table,
    taken,
    wrapped,
)
from edgeopt.report.terminal_devices import several

RUNNERS_UP = 2

Document = Mapping[str, Any]
Point = Mapping[str, Any]


def terminal(document: Document) -> str:
    """The page. Every number in it is a text or a number of the document."""
    study = document["study"]
    head = f"{study['model']} ({study['id']}): {document['ledger']['text']}"
    if document["interrupted"]:
        head += ", interrupted"
    steps = list(dict.fromkeys(found["next"] for found in document["verdict"].values()))
    if document["across"] is not None:
        return "\n".join(several(document, head, steps)) + "\n"
    lines = [head]
    for device in study["devices"]:
        lines += _device(document, device)
    lines += failed(document["failures"])
    if document["report"]:
        lines.append(f"report   {document['report']}")
    lines += [f"next     {step}" for step in steps]
    return "\n".join(lines) + "\n"


def _device(document: Document, device: str) -> list[str]:
    verdict, about = document["verdict"][device], document["devices"][device]
    label = f" ({about['text']})" if about["emulated"] or about["energy_scopes"] else ""
    lines = [
        f"{device}:{label}",
        *_table(_rows(document, device), quality_of(document), metric_title("energy", about)),
        *wrapped("verdict", verdict["text"], 3),
    ]
    chosen = taken(document, device)
    if chosen is not None and chosen["actions"]:
        lines += wrapped("recipe", chosen["summary"], 1)
        lines += [f"model    {chosen['model']}"] if chosen["model"] else []
    if chosen is not None and chosen["lowered"]:
        lines += wrapped("ran", f"{chosen['id']}: {chosen['lowered']['text']}", 1)
    for title, limit in (("in_vain", 3), ("unknown", 3), ("checked", 2)):
        lines += listed(title.replace("_", " "), document[title][device], limit)
    lines += listed("nearest", verdict["nearest"], 2)
    return lines


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


def _table(rows: Sequence[tuple[str, Point]], quality: str, energy: str) -> list[str]:
    """Where energy is known, its column takes the place of the latency's interval."""
    if not rows:
        return []
    known = any("energy" in point["metrics"] for _, point in rows)
    head = ("", "id", "latency", "against given", "size", quality)
    if not known:
        return table([head, *(_cells(name, point, quality) for name, point in rows)])
    cells = [
        (*_cells(name, point, quality, interval=False), _bare(point, "energy"))
        for name, point in rows
    ]
    return table([(*head, energy), *cells], spare=("size",))


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
