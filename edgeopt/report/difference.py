"""Two models beside each other: metric by metric with intervals, and layer by layer."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgeopt.core.samples import Interval
from edgeopt.report import words
from edgeopt.report.alignment import aligned

Row = Mapping[str, Any]
SCHEMA_VERSION = 1
_COMPARED = ("operator", "asked", "ran", "shape", "width", "weight_bytes", "macs")
_TOTALS = ("layers", "macs", "weight_bytes", "time_s")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two.

    Args:
        name: `c12`, or the file as the user gave it.
        what: In a few words.
        device: Where it was measured; empty for a file.
        point: The trial as the document shows it; None for a file.
        rows: Its layers, as `report.layers.rows` gives them.
        removed: Value of the given model to the action that took it out.
        exact: Metric to value and unit (empty for counts) of what needs no device, for files.
        absent: What is not known of it, one sentence each.
    """

    name: str
    what: str
    device: str = ""
    point: Mapping[str, Any] | None = None
    rows: Sequence[Row] = ()
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    exact: Mapping[str, tuple[float, str]] = field(default_factory=dict[str, tuple[float, str]])
    absent: Sequence[str] = ()


def difference(a: Side, b: Side, *, study: str = "") -> dict[str, Any]:
    """What changes from the first to the second, as a JSON object with a `schema_version`."""
    layers = _layers(a, b)
    counts = Counter(each["status"] for each in layers)
    return {
        "schema_version": SCHEMA_VERSION,
        "study": study,
        "a": _side(a),
        "b": _side(b),
        "metrics": _metrics(a, b),
        "layers": layers,
        "counts": {name: counts[name] for name in ("same", "changed", "added", "gone")},
        "totals": {name: [_total(a.rows, name), _total(b.rows, name)] for name in _TOTALS},
        "absent": [*(f"{a.name}: {s}" for s in a.absent), *(f"{b.name}: {s}" for s in b.absent)],
    }


def _side(side: Side) -> dict[str, Any]:
    point = side.point or {}
    return {
        "name": side.name,
        "what": side.what,
        "device": side.device,
        "recipe": list(point.get("recipe", ())),
        "runtime": point.get("runtime", ""),
        "verdict": point.get("verdict"),
    }


def _total(rows: Sequence[Row], name: str) -> float | None:
    if name == "layers":
        return len(rows)
    found = [row[name] for row in rows if row[name] is not None]
    return sum(found) if found else None


def _layers(a: Side, b: Side) -> list[dict[str, Any]]:
    return [
        _layer(
            None if i is None else a.rows[i],
            None if j is None else b.rows[j],
            a=a.removed,
            b=b.removed,
        )
        for i, j in aligned(a.rows, b.rows)
    ]


def _layer(
    before: Row | None, after: Row | None, *, a: Mapping[str, str], b: Mapping[str, str]
) -> dict[str, Any]:
    """One pair, or what only one side has.

    Args:
        before: Of the first model.
        after: Of the second.
        a: What the first's actions took out of the given model, by value.
        b: What the second's did.
    """
    shown = after or before or {}
    if before is None or after is None:
        status = "added" if before is None else "gone"
    else:
        status = "same" if all(before[n] == after[n] for n in _COMPARED) else "changed"
    did = [list(row["actions"]) if row is not None else [] for row in (before, after)]
    for row, actions, removed in ((before, did[0], a), (after, did[1], b)):
        if row is None and shown["value"] in removed:
            actions.append(removed[shown["value"]])
    return {
        "value": shown["value"],
        "status": status,
        "a": None if before is None else _facts(before),
        "b": None if after is None else _facts(after),
        "actions": {
            "a": [text for text in did[0] if text not in did[1]],
            "b": [text for text in did[1] if text not in did[0]],
        },
    }


def _facts(row: Row) -> dict[str, Any]:
    names = (*_COMPARED, "name", "ran_operator", "time_s", "snr_db")
    return {**{name: row[name] for name in names}, "merged": row["into"] is not None}


def _metrics(a: Side, b: Side) -> list[dict[str, Any]]:
    if a.point is None or b.point is None:
        return [_exact(name, a.exact[name], b.exact[name]) for name in a.exact if name in b.exact]
    mine, theirs = a.point["metrics"], b.point["metrics"]
    if a.device != b.device:
        # Times of two devices are no difference between two models.
        mine = {n: m for n, m in mine.items() if m["unit"] in {"B", "1"}}
    names = [name for name in mine if name in theirs]
    return [_metric(name, a.point, b.point) for name in names]


def _exact(name: str, a: tuple[float, str], b: tuple[float, str]) -> dict[str, Any]:
    return {
        "metric": name,
        "a": words.quantity(*a) if a[1] else words.large(a[0]),
        "b": words.quantity(*b) if b[1] else words.large(b[0]),
        "change": words.number(b[0] - a[0]),
        "low": None,
        "high": None,
        "unit": a[1],
        "text": words.change_text(b[0], a[0], a[1]),
        "note": "",
    }


def _metric(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    before, after = a["metrics"][name], b["metrics"][name]
    shown = {"metric": name, "a": before["text"], "b": after["text"]}
    ratio = ratio_between(a, b) if name == "latency" else None
    if ratio is not None:
        paired = "reference" in {a["ratio"]["relation"], b["ratio"]["relation"]}
        fresh = min(a["ratio"]["fresh_rounds"], b["ratio"]["fresh_rounds"])
        said = words.relation(ratio, fresh)
        return {
            **shown,
            "change": words.number(ratio.value),
            "low": words.number(ratio.low),
            "high": words.number(ratio.high),
            "unit": "ratio",
            "text": words.ratio_text(ratio, said),
            "note": "" if paired else "each was measured beside the given model, not the other",
        }
    change = _change(before, after)
    return {
        **shown,
        "change": words.number(change.value),
        "low": words.number(change.low) if change.low != change.high else None,
        "high": words.number(change.high) if change.low != change.high else None,
        "unit": before["unit"],
        "text": _change_text(change, before, after),
        "note": _caveat(before, after, change),
    }


def ratio_between(a: Mapping[str, Any], b: Mapping[str, Any]) -> Interval | None:
    """The second's latency over the first's, from both ratios to the given model.

    The reference is 1 by definition; else the two are independent, and the widths of their
    logarithms add as squares.
    """
    first, second = _interval(a), _interval(b)
    if first is None or second is None:
        return None
    value = second.value / first.value
    if min(first.low, second.low) <= 0 or not math.isfinite(max(first.high, second.high)):
        return Interval(value=value, low=0.0, high=math.inf)
    down = math.hypot(math.log(second.value / second.low), math.log(first.high / first.value))
    up = math.hypot(math.log(second.high / second.value), math.log(first.value / first.low))
    return Interval(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def _interval(point: Mapping[str, Any]) -> Interval | None:
    ratio = point["ratio"]
    if ratio is None:
        return None
    if ratio["relation"] == "reference":
        return Interval(value=1.0, low=1.0, high=1.0)
    low, high = ratio["low"] or 0.0, ratio["high"]
    return Interval(value=ratio["value"], low=low, high=math.inf if high is None else high)


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Interval:
    """The difference, its interval from both as if they were independent; exact ones have none."""
    value = after["value"] - before["value"]
    down = math.hypot(_reach(after, "low"), _reach(before, "high"))
    up = math.hypot(_reach(after, "high"), _reach(before, "low"))
    return Interval(value=value, low=value - down, high=value + up)


def _reach(metric: Mapping[str, Any], end: str) -> float:
    interval = metric["interval"]
    if interval is None:
        return 0.0
    return math.inf if interval[end] is None else abs(interval[end] - metric["value"])


def _change_text(change: Interval, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    text = words.change_text(after["value"], before["value"], before["unit"])
    if change.low == change.high or not math.isfinite(change.high - change.low):
        return text
    low = words.change_text(before["value"] + change.low, before["value"], before["unit"])
    high = words.change_text(before["value"] + change.high, before["value"], before["unit"])
    unit = text.rpartition(" ")[2]
    return f"{text} [{low.removesuffix(f' {unit}')}, {high.removesuffix(f' {unit}')}]"


def _caveat(before: Mapping[str, Any], after: Mapping[str, Any], change: Interval) -> str:
    if change.low == change.high:
        return ""
    same = before["unit"] == "1"
    return "on the same samples, so the interval is wider than it need be" if same else ""
