"""The end of a run on several devices: still one page of a terminal.

One table holds what matters of each device; then come the verdicts, and what the devices say
together. Where there are many devices, rows go first and sentences next: the report has them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.report.devices import EMULATED, metric_title
from edgeopt.report.lines import (
    failed,
    fitting,
    listed,
    metric_text,
    named_rows,
    quality_of,
    table,
    wrapped,
    wrapped_head,
)

MOST = 8
"""Devices that a page can hold."""
_NAME = 18
Document = Mapping[str, Any]
Block = tuple[int, list[str]]


def several(document: Document, head: str, steps: Sequence[str], width: int) -> list[str]:
    """The lines of the page; what does not fit is left out, the least important first.

    Args:
        document: Of several devices.
        head: The first line.
        steps: What to do next.
        width: Characters of a line.
    """
    devices = list(document["study"]["devices"])
    shown = devices[:MOST]
    more = f"and {len(devices) - MOST} more devices: see the report"
    across = document["across"]["text"]
    blocks: list[Block] = [
        (0, wrapped_head(head, width)),
        (0, _rows(document, shown, width)),
        (0, [more] if len(devices) > MOST else []),
        (0, _verdicts(document, shown, width)),
        (1, wrapped("across", across[0], 2, width)),
        *((3, wrapped("", sentence, 1, width)) for sentence in across[1:]),
        (2, _about(document, shown, width)),
        (5, _unknown(document, shown, width)),
        (6, failed(document["failures"], width)),
        (0, [f"report   {document['report']}"] if document["report"] else []),
        (0, [f"next     {step}" for step in steps[:1]]),
        *((4, [f"         {step}"]) for step in steps[1:3]),
    ]
    return fitting(blocks)


def _rows(document: Document, devices: Sequence[str], width: int) -> list[str]:
    """Given model, shipped today and pick of each device; of many devices less of each."""
    quality = quality_of(document)
    energy = any("energy" in (p["metrics"] if p else {}) for p in document["baseline"].values())
    scopes = [document["devices"][device] for device in devices]
    same = len({tuple(each["energy_scopes"]) for each in scopes if each["energy_scopes"]}) == 1
    title = metric_title("energy", next(s for s in scopes if s["energy_scopes"])) if same else ""
    head = ["", "", "id", "latency", "against given", "size", quality]
    rows = [[*head, title or "energy"] if energy else head]
    for device in devices:
        for index, (name, point) in enumerate(_few(document, device, len(devices))):
            ratio = point["ratio"]
            cells = [
                _short(device) if index == 0 else "",
                name,
                point["id"],
                metric_text(point, "latency").partition(" [")[0],
                "" if ratio is None else ratio["short"],
                metric_text(point, "size"),
                metric_text(point, quality).partition(" [")[0],
            ]
            extra = metric_text(point, "energy").partition(" [")[0]
            rows.append([*cells, extra] if energy else cells)
    return table(rows, spare=("size", quality), width=width)


def _few(document: Document, device: str, devices: int) -> list[tuple[str, Mapping[str, Any]]]:
    rows = named_rows(document, device)
    if devices <= 3:
        return rows
    if devices <= 4:
        return [row for row in rows if "given" in row[0] or "TAKE" in row[0]]
    return [row for row in rows if "TAKE" in row[0]] or rows[:1]


def _short(device: str) -> str:
    return device if len(device) <= _NAME else f"{device[: _NAME - 1]}…"


def _verdicts(document: Document, devices: Sequence[str], width: int) -> list[str]:
    limit = 2 if len(devices) <= 3 else 1
    lines: list[str] = []
    for device in devices:
        emulated = document["devices"][device]["emulated"]
        name = f"{_short(device)} ({EMULATED})" if emulated else _short(device)
        lines += wrapped("verdict", f"{name}: {document['verdict'][device]['text']}", limit, width)
    return lines


def _about(document: Document, devices: Sequence[str], width: int) -> list[str]:
    """Kinds of devices; that time is emulated on one is said first."""
    facts = [(device, document["devices"][device]) for device in devices]
    facts.sort(key=lambda fact: not fact[1]["emulated"])
    told = [
        f"{_short(device)}: {_with_emulated_first(each['text'])}"
        for device, each in facts
        if each["text"]
    ]
    return wrapped("devices", "; ".join(told), 2, width) if told else []


def _with_emulated_first(text: str) -> str:
    words = text.split("; ")
    return ", ".join(sorted(words, key=lambda word: word != EMULATED))


def _unknown(document: Document, devices: Sequence[str], width: int) -> list[str]:
    first = [f"{_short(d)}: {document['unknown'][d][0]}" for d in devices if document["unknown"][d]]
    return listed("unknown", first[:1], 1, width)
