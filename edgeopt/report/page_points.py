"""What figures show, as columns: the same for the static figures and for the page's scripts."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.report.devices import metric_title
from edgeopt.report.markdown import metric_names

UNITS = {"s": "_s", "B": "_bytes", "J": "_j", "W": "_w", "C": "_c"}
"""What the name of a column of numbers ends with."""
Document = Mapping[str, Any]
Point = Mapping[str, Any]
RATIO = "ratio"
KINDS = ("front", "beside the front", "breaks a bound", "given model", "usual way", "shipped today")
"""What a point is; the first three say where a search result stands."""
_DIGITS = 7
_UNSEEN: Mapping[str, Any] = {"energy_scopes": []}
_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    "J": ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "W": ((1.0, "W"), (1e-3, "mW")),
}


def axes(document: Document) -> dict[str, dict[str, Any]]:
    """Everything that can stand on an axis, objectives first, by name.

    Each has `title` with the unit, `factor` (SI value of one unit shown), `format` (d3), `better`
    (`low`, `high`, or empty where it is no objective), `objective`, and its name as a `column`.
    """
    points = [p for found in document["candidates"].values() for p in found if p["metrics"]]
    directions = {o["metric"]: o["direction"] for o in document["study"]["objectives"]}
    paired = bool(points) and all(p["ratio"] is not None for p in points)
    names = metric_names(points)
    ordered = [n for n in names if n in directions] + [n for n in names if n not in directions]
    found: dict[str, dict[str, Any]] = {}
    if paired:
        title = "time ÷ the given model's"
        found[RATIO] = _axis(title, 1.0, ".3~g", "low", RATIO, objective="latency" in directions)
    about: Mapping[str, Any] = next(iter(document["devices"].values()), _UNSEEN)
    for name in ordered:
        metrics = [p["metrics"][name] for p in points if name in p["metrics"]]
        unit = metrics[0]["unit"]
        factor, shown = _scale(unit, [m["value"] for m in metrics if m["value"] is not None])
        title = metric_title(name, about) + (f", {shown}" if shown else "")
        better = {"min": "low", "max": "high"}.get(directions.get(name, ""), "")
        form = ".2~%" if unit == "1" else ".4~g"
        column = f"{name}{UNITS.get(unit, '')}"
        found[name] = _axis(title, factor, form, better, column, objective=name in directions)
    return found


def _axis(
    title: str, factor: float, form: str, better: str, column: str, *, objective: bool
) -> dict[str, Any]:
    return {
        "title": title,
        "factor": factor,
        "format": form,
        "better": better,
        "objective": objective,
        "column": column,
    }


def _scale(unit: str, values: Sequence[float]) -> tuple[float, str]:
    """The largest unit in which the typical value is at least 1."""
    steps = _SCALES.get(unit, ())
    middle = sorted(map(abs, values))[len(values) // 2] if values else 0.0
    for factor, name in steps:
        if middle >= factor:
            return factor, name
    return steps[-1] if steps else (1.0, "" if unit == "1" else unit)


def default_axes(known: Mapping[str, Mapping[str, Any]]) -> tuple[str, str, str]:
    """Time, what is to be kept high (else size), and for the colour the next objective."""
    names = list(known)
    across = RATIO if RATIO in known else "latency" if "latency" in known else names[0]
    taken = {across, "latency"}
    high = [n for n in names if known[n]["better"] == "high"]
    rest = [n for n in ("size", *names) if n in known and n not in taken]
    up = next(iter(high), next(iter(rest), across))
    left = [n for n in rest if known[n]["objective"] and n != up]
    return across, up, next(iter(left), "kind")


def columns(
    document: Document, device: str, known: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The measured points of a device, column by column.

    Returns:
        `ids`, `kinds` (positions in `KINDS`), `front` and `kept` (bounds) as 0 or 1, `values`:
        axis to `[values, lows, highs]` in SI units (lows and highs None where all are exact),
        `named`: id to what it was picked for, `bounds`: axis to limit.
    """
    points = [p for p in document["candidates"][device] if p["metrics"]]
    shipped = document["shipped_today"][device]
    ship = None if shipped is None else shipped["id"]
    return {
        "ids": [p["id"] for p in points],
        "kinds": [KINDS.index(_kind(p, ship)) for p in points],
        "front": [int(p["standing"] == "front") for p in points],
        "kept": [int(p["standing"] != "infeasible") for p in points],
        "values": {name: _column(points, name) for name in known},
        "named": _named(document, device, ship),
        "bounds": document["bounds"][device],
    }


def _kind(point: Point, shipped: str | None) -> str:
    if point["role"] == "baseline":
        return KINDS[3]
    if point["id"] == shipped:
        return KINDS[5]
    if point["role"] == "peer":
        return KINDS[4]
    if point["standing"] == "infeasible":
        return KINDS[2]
    return KINDS[0] if point["standing"] == "front" else KINDS[1]


def _named(document: Document, device: str, shipped: str | None) -> dict[str, str]:
    """Ids that deserve a label, and the names they were picked under."""
    found: dict[str, list[str]] = {}
    take = document["verdict"][device]["take"]
    base = document["baseline"][device]
    if take is not None:
        found.setdefault(take, []).append("take")
    for name, pick in document["picks"][device].items():
        if pick:
            found.setdefault(pick["id"], []).append(name.replace("_", " "))
    if base is not None:
        found.setdefault(base["id"], []).insert(0, "given")
    if shipped is not None and (base is None or shipped != base["id"]):
        found.setdefault(shipped, []).append("shipped today")
    return {name: ", ".join(said) for name, said in found.items()}


def _column(points: Sequence[Point], name: str) -> list[list[float | None] | None]:
    rows = [_ends(p, name) for p in points]
    exact = all(low is None and high is None for _, low, high in rows)
    values = [_short(value) for value, _, _ in rows]
    if exact:
        return [values, None, None]
    return [values, [_short(low) for _, low, _ in rows], [_short(high) for _, _, high in rows]]


def _ends(point: Point, name: str) -> tuple[float | None, float | None, float | None]:
    if name == RATIO:
        found: Mapping[str, Any] = point["ratio"] or {}
        return found.get("value"), found.get("low"), found.get("high")
    metric: Mapping[str, Any] = point["metrics"].get(name) or {}
    ends: Mapping[str, Any] = metric.get("interval") or {}
    return metric.get("value"), ends.get("low"), ends.get("high")


def _short(value: float | None) -> float | None:
    """What a figure can show and a reader can use; the whole value is in the JSON report."""
    if value is None:
        return None
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def rows(
    found: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    shown: tuple[str, str, str],
) -> list[dict[str, Any]]:
    """What the front figure draws: one row a point, in the units of its axes."""
    across, up, shade = shown
    x, y = (_scaled(found, known, name) for name in (across, up))
    colour = None if shade == "kind" else _scaled(found, known, shade)
    return [
        {
            "id": name,
            "label": found["named"].get(name, ""),
            "kind": KINDS[found["kinds"][i]],
            "front": found["front"][i],
            "kept": found["kept"][i],
            "x": x[i][0],
            "x_low": x[i][1],
            "x_high": x[i][2],
            "y": y[i][0],
            "y_low": y[i][1],
            "y_high": y[i][2],
            "c": KINDS[found["kinds"][i]] if colour is None else colour[i][0],
        }
        for i, name in enumerate(found["ids"])
    ]


def _scaled(
    found: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], name: str
) -> list[tuple[float | None, float | None, float | None]]:
    values, lows, highs = found["values"][name]
    factor = known[name]["factor"]

    def of(value: float | None, instead: float | None) -> float | None:
        held = instead if value is None else value
        return None if held is None else held / factor

    return [
        (
            of(value, None),
            of(None if lows is None else lows[i], value),
            of(None if highs is None else highs[i], value),
        )
        for i, value in enumerate(values)
    ]
