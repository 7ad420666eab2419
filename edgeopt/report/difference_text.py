"""A difference in plain text and in Markdown: metrics, then the layers that changed most."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgeopt.core.action import Action
from edgeopt.errors import UsageError
from edgeopt.report.lines import WIDTH, table, wrapped
from edgeopt.report.markdown_text import folded, plain, row
from edgeopt.report.words import count, large
from edgeopt.units import format_bytes, format_seconds

SHOWN = 20
_NAME = 36
_SIGNS = {"changed": "~", "added": "+", "gone": "-", "same": " "}
_HEAD = (
    "",
    "layer",
    "operator",
    "precision",
    "shape",
    "weights",
    "multiply-adds",
    "time",
    "SNR",
    "by",
)
Document = Mapping[str, Any]


def difference_text(found: Document, *, everything: bool = False, width: int = WIDTH) -> str:
    """For a terminal.

    Args:
        found: As `difference` makes it.
        everything: All layers; else the `SHOWN` that changed most, in the model's order.
        width: Characters that a line may have.
    """
    lines = [_head("a", found["a"]), _head("b", found["b"]), ""]
    metrics = [("", "a", "b", "change from a to b"), *_metric_rows(found)]
    lines += table(metrics, width=width) if len(metrics) > 1 else []
    for note in _notes(found):
        lines += wrapped("", note, 2, width)
    if found["layers"]:
        lines += ["", *wrapped("layers", _summary(found), 3, width)]
    layers, left = chosen(found, everything=everything)
    if layers:
        lines += table(_known([_HEAD, *map(cells, layers)]), spare=_SPARE, width=width)
        more = f"  and {count(left, 'more layer')} that changed: --all shows them"
        lines += [more] if left else []
    for sentence in found["absent"]:
        lines += wrapped("unknown", sentence, 2, width)
    return "\n".join(lines) + "\n"


_SPARE = ("multiply-adds", "shape", "weights")
"""Columns that a narrow terminal does without."""


def difference_markdown(found: Document, *, everything: bool = False) -> str:
    """For a pull request: the layers are folded away."""
    a, b = found["a"], found["b"]
    lines = [f"## {plain(a['name'])} → {plain(b['name'])}", ""]
    lines += [f"- **a** {plain(_said(a))}", f"- **b** {plain(_said(b))}", ""]
    rows = _metric_rows(found)
    if rows:
        lines += [row(("metric", "a", "b", "change")), row(["---"] * 4), *map(row, rows), ""]
    lines += [f"- {plain(note)}" for note in _notes(found)]
    lines += folded(f"Layers: {_summary(found)}", ["", *layer_table(found, everything=everything)])
    lines += ["", *(f"- not known: {plain(sentence)}" for sentence in found["absent"])]
    return "\n".join(lines).rstrip() + "\n"


def layer_table(found: Document, *, everything: bool = False) -> list[str]:
    """The layers that changed most as a table of Markdown; none where nothing is known."""
    layers, left = chosen(found, everything=everything)
    if not layers:
        return []
    head, *body = _known([_HEAD, *map(cells, layers)])
    lines = [row(head), row(["---"] * len(head)), *map(row, body)]
    return [*lines, "", f"And {count(left, 'more layer')} that changed."] if left else lines


def _known(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows without columns that nothing is known for; the first row is the head."""
    filled = [any(row[at] for row in rows[1:]) for at in range(len(rows[0]))]
    return [[cell for cell, keep in zip(row, filled, strict=True) if keep] for row in rows]


def _head(letter: str, side: Mapping[str, Any]) -> str:
    return f"{letter}  {_said(side)}"


def _said(side: Mapping[str, Any]) -> str:
    where = f" on {side['device']}" if side["device"] else ""
    return f"{side['name']}{where}: {side['what']}"


def _metric_rows(found: Document) -> list[tuple[str, str, str, str]]:
    return [
        (each["metric"].replace("_", " "), each["a"], each["b"], each["text"])
        for each in found["metrics"]
    ]


def _notes(found: Document) -> list[str]:
    """What a reader must know of the intervals, each once."""
    notes: dict[str, list[str]] = {}
    for each in found["metrics"]:
        if each["note"]:
            notes.setdefault(each["note"], []).append(each["metric"].replace("_", " "))
    return [f"{', '.join(names)}: {note}" for note, names in notes.items()]


def _summary(found: Document) -> str:
    counts, totals = found["counts"], found["totals"]
    told = [f"{counts[n]} {n}" for n in ("changed", "added", "gone", "same") if counts[n]]
    parts = [f"{totals['layers'][0]} → {totals['layers'][1]} ({', '.join(told)})"]
    a, b = totals["macs"]
    if a is not None and b is not None:
        parts.append(f"multiply-adds {large(a)} → {large(b)}")
    return "; ".join(parts)


def chosen(found: Document, *, everything: bool) -> tuple[list[Mapping[str, Any]], int]:
    """The layers to show, in their order, and how many that changed are left out.

    What cost or saved most time comes first where times are known, then weights.
    """
    layers: Sequence[Mapping[str, Any]] = found["layers"]
    if everything:
        return list(layers), 0
    changed = [each for each in layers if each["status"] != "same"]
    largest = sorted(changed, key=_weight, reverse=True)[:SHOWN]
    kept = {id(each) for each in largest}
    return [each for each in changed if id(each) in kept], len(changed) - len(largest)


def _weight(layer: Mapping[str, Any]) -> tuple[float, float, float]:
    def of(side: str, name: str) -> float:
        return 0.0 if layer[side] is None else layer[side][name] or 0.0

    times, sizes, works = (abs(of("a", n) - of("b", n)) for n in ("time_s", "weight_bytes", "macs"))
    return times, sizes, works


def cells(layer: Mapping[str, Any]) -> tuple[str, ...]:
    """One layer as a row: what is the same on both sides stands once."""
    a, b = layer["a"], layer["b"]

    def both(show: Callable[[Mapping[str, Any]], str]) -> str:
        before, after = ("" if side is None else show(side) for side in (a, b))
        if a is None or b is None or before == after:
            return after if b is not None else before
        return f"{before or '–'} → {after or '–'}"

    snr = None if b is None else b["snr_db"]
    return (
        _SIGNS[layer["status"]],
        _short(layer["value"]),
        both(lambda side: str(side["operator"]).rpartition(":")[2]),
        both(_precision),
        both(lambda side: str(side["shape"])),
        both(lambda side: format_bytes(side["weight_bytes"]) if side["weight_bytes"] else ""),
        both(lambda side: large(side["macs"]) if side["macs"] else ""),
        both(_time),
        "" if snr is None else decibels(snr),
        _by(layer["actions"]),
    )


def _short(name: str) -> str:
    """Beginning and end of a long name: exporters write whole paths."""
    return name if len(name) <= _NAME else f"{name[: _NAME // 4]}…{name[-(3 * _NAME // 4) + 1 :]}"


def _by(actions: Mapping[str, Sequence[str]]) -> str:
    """The transforms that only the second has, and those that only the first has."""
    mine, gone = (dict.fromkeys(map(short_action, actions[side])) for side in ("b", "a"))
    return ", ".join([*mine, *(f"no {name}" for name in gone if name not in mine)])


def decibels(value: float) -> str:
    """A ratio of signal to noise; 200 stands for no difference at all."""
    return "equal" if value >= 200 else f"{value:.0f} dB"


def _precision(side: Mapping[str, Any]) -> str:
    """What was asked for, and what ran where that is something else."""
    asked, ran = side["asked"], side["ran"]
    return asked if ran in {"", asked, "other"} else f"{asked} (ran {ran})"


def _time(side: Mapping[str, Any]) -> str:
    if side["time_s"] is not None:
        return format_seconds(side["time_s"])
    return "merged" if side["merged"] else ""


def short_action(text: str) -> str:
    """The transform alone: the site is the row's, or the whole model."""
    try:
        return Action.parse(text).transform
    except UsageError:
        return text
