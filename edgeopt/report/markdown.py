"""The report as Markdown: for a pull request, a model card, or a mail."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgeopt.report.devices import metric_title
from edgeopt.report.markdown_across import across_section
from edgeopt.report.markdown_text import plain, row

Document = Mapping[str, Any]
Point = Mapping[str, Any]
_FIRST = (
    *("latency", "size", "accuracy", "agreement", "accuracy_test"),
    *("energy", "energy_net", "power", "peak_memory"),
    *("paced_latency", "deadline_misses", "paced_energy"),
    *("load", "first_run", "build", "engine_size"),
)
_LISTS = (("in_vain", "Tried in vain"), ("unknown", "Not known"), ("checked", "Checked"))


def markdown(document: Document) -> str:
    """All sections of the report but the figure."""
    study = document["study"]
    lines = [
        f"# {plain(study['model'])}",
        "",
        f"Study `{study['id']}`, {document['ledger']['text']}.",
    ]
    if document["across"] is not None:
        lines += ["", *across_section(document["across"])]
    for device in study["devices"]:
        lines += ["", *_device(document, device)]
    lines += ["", *_failures(document["failures"]), *_ledger(document["ledger"])]
    lines += ["", *_reproduce(document["reproduce"])]
    return "\n".join(lines) + "\n"


def _device(document: Document, device: str) -> list[str]:
    verdict = document["verdict"][device]
    about = document["devices"][device]
    lines = [f"## {plain(device)}", "", *([plain(about["text"]), ""] if about["text"] else [])]
    lines += [f"**{plain(verdict['text'])}**", ""]
    metrics = metric_names(document["candidates"][device])
    titles = [metric_title(name, about) for name in metrics]
    head = ["id", "what", "against given", *titles, "verdict"]
    lines += [row(head), row("---" for _ in head)]
    lines += [row(_cells(p, document, device, metrics)) for p in _shown(document, device)]
    lines += ["", *_picks(document["picks"][device])]
    for key, title in _LISTS:
        lines += _bullets(title, document[key][device])
    lines += _bullets("Nearest to the bounds", verdict["nearest"])
    return [*lines, *_recipes(document["fronts"][device])]


def metric_names(points: Iterable[Point]) -> list[str]:
    """Every metric that a point has a value for: what decides first, shift probes last."""
    found = list(dict.fromkeys(name for point in points for name in point["metrics"]))
    known = {name: rank for rank, name in enumerate(_FIRST)}
    return sorted(found, key=lambda name: (known.get(name, len(known)), "@" in name))


def _shown(document: Document, device: str) -> Sequence[Point]:
    """The front, and beside it the given model and the peers wherever they stand."""
    found = document["candidates"][device]
    return [p for p in found if p["standing"] == "front" or p["role"] in {"baseline", "peer"}]


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
    lines = ["", "### Recipes"] if any(point["actions"] for point in front) else []
    for point in front:
        if point["actions"]:
            lines += ["", f"{point['id']}, {plain(point['runtime'])}:", ""]
            lines += [f"    {line}" for line in point["recipe"]]
    return lines


def _failures(found: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["## Failures", ""] if found else []
    for each in found:
        examples = "; ".join(f"{e['id']}: {plain(e['reason'])}" for e in each["examples"])
        lines.append(f"- {each['stage']}: {each['count']} ({examples})")
    return [*lines, ""] if found else []


def _ledger(found: Mapping[str, Any]) -> list[str]:
    accounts = [f"- {each['strategy']}: {each['text']}" for each in found["accounts"]]
    if len(found["devices"]) > 1:
        accounts += [
            "",
            *(f"- {plain(each['device'])}: {each['text']}" for each in found["devices"]),
        ]
    return ["## What it cost", "", *accounts]


def _reproduce(found: Mapping[str, Any]) -> list[str]:
    lines = ["## Reproduce", "", f"    {found['command']}", ""]
    lines += [f"- seed {found['seed']}, strategy {found['strategy']}"]
    lines += [f"- {name}: `{digest}`" for name, digest in found["digests"].items() if digest]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return [*lines, f"- {versions}"] if versions else lines
