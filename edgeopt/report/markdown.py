"""The report as Markdown that fits a comment on a pull request.

What a reviewer needs stands open; the rest is folded away in `<details>`. Hosts cut or refuse what
is longer than 65,536 characters, so what matters least is left out first, and that is said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeopt.report.devices import metric_title
from edgeopt.report.difference import Side, difference
from edgeopt.report.difference_text import layer_table
from edgeopt.report.layers import removed, rows
from edgeopt.report.markdown_across import across_section
from edgeopt.report.markdown_text import folded, plain, row

Document = Mapping[str, Any]
Point = Mapping[str, Any]
LIMIT = 65_000
"""Characters: 65,536 is the most that GitHub takes, and a bot adds its marker."""
SHOWN = 10
"""Rows of a table that stands open."""
_FIRST = (
    *("latency", "size", "accuracy", "agreement", "accuracy_test"),
    *("energy", "energy_net", "power", "peak_memory"),
    *("paced_latency", "deadline_misses", "paced_energy"),
    *("load", "first_run", "build", "engine_size"),
)
_OPEN = ("latency", "size", "accuracy", "agreement", "energy", "peak_memory")
_LISTS = (
    ("pruned", "Pruning"),
    ("integers", "In integers"),
    ("in_vain", "Tried in vain"),
    ("unknown", "Not known"),
    ("checked", "Checked"),
)


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A part of the text; the highest rank is left out first."""

    rank: int
    title: str
    lines: Sequence[str]


def markdown(document: Document, limit: int = LIMIT) -> str:
    """All sections of the report but the figure, as far as they fit.

    Args:
        document: The report's.
        limit: Characters that the text may have.
    """
    study = document["study"]
    first = [
        f"# {plain(study['model'])}",
        "",
        f"Study `{study['id']}`, {document['ledger']['text']}.",
    ]
    blocks = [_Block(rank=0, title="", lines=first)]
    if document["across"] is not None:
        lines = ["", *across_section(document["across"])]
        blocks.append(_Block(rank=1, title="across devices", lines=lines))
    for device in study["devices"]:
        blocks += _device(document, device)
    blocks += [
        _Block(rank=6, title="failures", lines=_failures(document["failures"])),
        _Block(rank=5, title="cost", lines=_ledger(document["ledger"])),
        _Block(rank=3, title="how to reproduce", lines=_reproduce(document["reproduce"])),
    ]
    return _fitting(blocks, limit)


def _fitting(blocks: Sequence[_Block], limit: int) -> str:
    """The text of the blocks; the least important are left out where it would be too long."""
    kept, gone = list(blocks), list[str]()
    while len(text := _joined(kept, gone)) > limit:
        weakest = max(range(len(kept)), key=lambda at: (kept[at].rank, at))
        if kept[weakest].rank == 0:
            return f"{text[: limit - 2].rpartition(chr(10))[0]}\n"
        gone.append(kept.pop(weakest).title)
    return text


def _joined(blocks: Sequence[_Block], gone: Sequence[str]) -> str:
    lines = [line for block in blocks for line in block.lines]
    if gone:
        named = ", ".join(dict.fromkeys(gone))
        lines += ["", f"Left out, since a comment holds no more: {plain(named)}."]
    return "\n".join(lines) + "\n"


def _device(document: Document, device: str) -> list[_Block]:
    verdict, about = document["verdict"][device], document["devices"][device]
    lines = ["", f"## {plain(device)}", ""]
    lines += [plain(about["text"]), ""] if about["text"] else []
    lines += [f"**{plain(verdict['text'])}**", ""]
    shown = _shown(document, device)
    names = metric_names(document["candidates"][device])
    few = [name for name in names if name in _OPEN]
    table = _table(document, device, shown[:SHOWN], few)
    left = len(shown) - SHOWN
    table += ["", f"And {left} more."] if left > 0 else []
    lists = [line for key, title in _LISTS for line in _bullets(title, document[key][device])]
    lists += _bullets("Nearest to the bounds", verdict["nearest"])
    whole = _table(document, device, shown, names)
    return [
        _Block(rank=0, title="", lines=lines),
        _Block(rank=2, title=f"front of {device}", lines=table),
        _Block(rank=2, title=f"picks of {device}", lines=["", *_picks(document["picks"][device])]),
        _Block(
            rank=4,
            title=f"what is known and not of {device}",
            lines=folded("Pruning, tried in vain, not known, checked", lists),
        ),
        _Block(
            rank=8,
            title=f"every metric of {device}",
            lines=folded(f"Every metric of {len(shown)} models", ["", *whole]),
        ),
        _Block(
            rank=7,
            title=f"layers of {device}",
            lines=folded("Layers: what changes from the given model", _layers(document, device)),
        ),
        _Block(
            rank=8,
            title=f"measurement quality of {device}",
            lines=folded("How well it was measured", _quality(document, device)),
        ),
        _Block(
            rank=9,
            title=f"recipes of {device}",
            lines=folded("Recipes", _recipes(document["fronts"][device])),
        ),
    ]


def _table(
    document: Document, device: str, points: Sequence[Point], metrics: Sequence[str]
) -> list[str]:
    titles = [metric_title(name, document["devices"][device]) for name in metrics]
    head = ["id", "what", "against given", *titles, "verdict"]
    cells = [row(_cells(point, document, device, metrics)) for point in points]
    return [row(head), row("---" for _ in head), *cells]


def _layers(document: Document, device: str) -> list[str]:
    """Given against taken, where both have a layer table."""
    by_id = {point["id"]: point for point in document["candidates"][device]}
    base, take = document["baseline"][device], by_id.get(document["verdict"][device]["take"])
    if base is None or take is None or base["id"] == take["id"]:
        return []
    sides = [
        Side(
            name=point["id"],
            what="",
            device=device,
            point=point,
            rows=rows(document, point),
            removed=removed(document, point),
        )
        for point in (base, take)
    ]
    if not all(side.rows for side in sides):
        reasons = [point["layers_absent"] for point in (base, take) if point["layers_absent"]]
        return ["", f"Not known: {plain(reasons[0])}."] if reasons else []
    return ["", *layer_table(difference(*sides))]


def _quality(document: Document, device: str) -> list[str]:
    grown = document["progress"][device]
    told = [f"- {q['id']}: {plain(q['text'])}" for q in document["quality"][device]]
    told += [f"- {plain(grown['text'])}"] if grown and grown["text"] else []
    return ["", *told] if told else []


def metric_names(points: Iterable[Point]) -> list[str]:
    """Every metric that a point has a value for: what decides first, shift probes last."""
    found = list(dict.fromkeys(name for point in points for name in point["metrics"]))
    known = {name: rank for rank, name in enumerate(_FIRST)}
    return sorted(found, key=lambda name: (known.get(name, len(known)), "@" in name))


def _shown(document: Document, device: str) -> Sequence[Point]:
    """The front, the given model and the peers; what a reader decides about comes first."""
    shipped, base = document["shipped_today"][device], document["baseline"][device]
    named = [document["verdict"][device]["take"], *(p["id"] for p in (shipped, base) if p)]
    found = document["candidates"][device]
    shown = [p for p in found if p["standing"] == "front" or p["role"] in {"baseline", "peer"}]
    return sorted(shown, key=lambda p: named.index(p["id"]) if p["id"] in named else len(named))


def _cells(point: Point, document: Document, device: str, metrics: Sequence[str]) -> Iterable[str]:
    yield point["id"]
    yield _what(point, document, device)
    yield "" if point["ratio"] is None else point["ratio"]["text"]
    for name in metrics:
        found = point["metrics"].get(name)
        yield "absent" if found is None else found["text"]
    reasons = "; ".join([*point["verdict"]["reasons"], *point["broken_bounds"], *point["notes"]])
    status = f"{point['standing']}, {point['verdict']['status']}"
    yield f"{status}: {reasons}" if reasons else status


def _what(point: Point, document: Document, device: str) -> str:
    marks: list[str] = []
    shipped = document["shipped_today"][device]
    if point["id"] == document["verdict"][device]["take"]:
        marks.append("take")
    if point["role"] == "baseline":
        marks.append("given model")
    if shipped is not None and point["id"] == shipped["id"]:
        marks.append("shipped today")
    return ", ".join([*marks, point["label"] or point["summary"]])


def _picks(found: Mapping[str, Any]) -> list[str]:
    named = [(name, pick) for name, pick in found.items() if pick]
    return [f"- {name.replace('_', ' ')}: {p['id']} ({plain(p['reason'])})" for name, p in named]


def _bullets(title: str, sentences: Sequence[str]) -> list[str]:
    return ["", f"### {title}", "", *(f"- {plain(s)}" for s in sentences)] if sentences else []


def _recipes(front: Sequence[Point]) -> list[str]:
    lines: list[str] = []
    for point in front:
        if point["actions"]:
            lines += ["", f"{point['id']}, {plain(point['runtime'])}:", ""]
            lines += [f"    {line}" for line in point["recipe"]]
    return lines


def _failures(found: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = [""]
    for each in found:
        examples = "; ".join(f"{e['id']}: {plain(e['reason'])}" for e in each["examples"])
        lines.append(f"- {each['stage']}: {each['count']} ({examples})")
    count = sum(each["count"] for each in found)
    return folded(f"Failures: {count}", lines) if found else []


def _ledger(found: Mapping[str, Any]) -> list[str]:
    accounts = [f"- {each['strategy']}: {each['text']}" for each in found["accounts"]]
    if len(found["devices"]) > 1:
        accounts += [
            "",
            *(f"- {plain(each['device'])}: {each['text']}" for each in found["devices"]),
        ]
    return folded("What it cost", ["", *accounts])


def _reproduce(found: Mapping[str, Any]) -> list[str]:
    lines = ["", f"    {found['command']}", ""]
    lines += [f"- seed {found['seed']}, strategy {found['strategy']}"]
    lines += [f"- {name}: `{digest}`" for name, digest in found["digests"].items() if digest]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return folded("Reproduce", [*lines, *([f"- {versions}"] if versions else [])])
