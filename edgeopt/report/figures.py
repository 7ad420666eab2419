"""The figure of a device's front, as a Vega-Lite specification and as SVG.

Latency against the given model's on x, accuracy on y, size as the area of the mark. Colours and
shapes both tell what a point is, and the text takes the page's colour, so that the figure holds
in dark mode, in print, and for a reader who does not see red from green.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Spec = dict[str, Any]
Point = Mapping[str, Any]
KINDS = ("front", "beside the front", "breaks a bound", "given model", "shipped today")
_COLORS = ("#2a78c8", "#8a94a0", "#8a94a0", "#d1495b", "#d98e04")
_SHAPES = ("circle", "circle", "circle", "diamond", "square")
_AXES = {"latency": "latency, s", "size": "size, B", "agreement": "agreement with the given model"}


def front_figure(document: Mapping[str, Any], device: str) -> Spec | None:
    """The specification with its data inside; None where fewer than two points can be drawn."""
    points = [p for p in document["candidates"][device] if p["metrics"]]
    paired = all(p["ratio"] is not None for p in points)
    vertical = _vertical(document, points)
    shipped = document["shipped_today"][device]
    name = None if shipped is None else shipped["id"]
    chosen = [pick["id"] for pick in document["picks"][device].values() if pick]
    named = {*chosen, document["verdict"][device]["take"], name}
    rows = [_row(p, vertical, name, paired=paired) for p in points]
    rows = [{**row, "label": row["id"] if row["id"] in named else ""} for row in rows]
    rows = [row for row in rows if row["x"] is not None and row["y"] is not None]
    rows.sort(key=lambda row: KINDS.index(row["kind"]) if row["kind"] in KINDS[3:] else -1)
    kept = [row for row in rows if _within(row, rows, "x") and _within(row, rows, "y")]
    if len(kept) < 2:
        return None
    title = "time per inference ÷ the given model's" if paired else _AXES["latency"]
    spec = _spec(kept, title, _AXES.get(vertical, vertical))
    return {**spec, "usermeta": {"left_out": len(rows) - len(kept)}}


def _within(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], axis: str) -> bool:
    """Whether a point is near enough to what matters; one far away would flatten all others.

    What matters is the front, the given model and what would be shipped today; the figure leaves
    as much room again on either side.
    """
    values = [other[axis] for other in rows if other["kind"] not in KINDS[1:3]] or [row[axis]]
    low, high = min(values), max(values)
    room = max(high - low, 0.05 * abs(high))
    return low - room <= row[axis] <= high + room


def svg(spec: Spec) -> str | None:
    """The drawn specification; None where vl-convert (the extra `report`) is not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])


def _vertical(document: Mapping[str, Any], points: Sequence[Point]) -> str:
    objectives = document["study"]["objectives"]
    wanted = [o["metric"] for o in objectives if o["direction"] == "max"]
    found = [name for name in wanted if any(name in p["metrics"] for p in points)]
    return found[0] if found else "size"


def _row(point: Point, vertical: str, shipped: str | None, *, paired: bool) -> dict[str, Any]:
    across = point["ratio"] if paired else _flat(point, "latency")
    up = _flat(point, vertical)
    x, y = across.get("value"), up.get("value")
    size = point["metrics"].get("size", {})
    return {
        "id": point["id"],
        "kind": _kind(point, shipped),
        "x": x,
        "x_low": _or(across.get("low"), x),
        "x_high": _or(across.get("high"), x),
        "y": y,
        "y_low": _or(up.get("low"), y),
        "y_high": _or(up.get("high"), y),
        "size": size.get("value") or 0,
        "front": point["standing"] == "front",
    }


def _flat(point: Point, metric: str) -> Point:
    """A metric's value and the ends of its interval, as a ratio holds them."""
    found = point["metrics"].get(metric, {})
    return {**found, **(found.get("interval") or {})}


def _or(value: float | None, other: float | None) -> float | None:
    return other if value is None else value


def _kind(point: Point, shipped: str | None) -> str:
    if point["role"] == "baseline":
        return KINDS[3]
    if point["id"] == shipped:
        return KINDS[4]
    if point["standing"] == "infeasible":
        return KINDS[2]
    return KINDS[0] if point["standing"] == "front" else KINDS[1]


def _spec(rows: Sequence[Mapping[str, Any]], across: str, up: str) -> Spec:
    percent = up not in _AXES.values() or up == _AXES["agreement"]
    axis = {"title": up, "format": ".1%" if percent else "~s"}
    x = {"field": "x", "type": "quantitative", "scale": _OPEN, "axis": {"title": across}}
    y = {"field": "y", "type": "quantitative", "scale": _OPEN, "axis": axis}
    front = [{"filter": "datum.front"}]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 620,
        "height": 340,
        "background": None,
        "padding": {"left": 8, "top": 8, "bottom": 8, "right": 48},
        "data": {"values": list(rows)},
        "layer": [
            _bar({"x": _low(x, "x"), "x2": {"field": "x_high"}, "y": y}),
            _bar({"x": x, "y": _low(y, "y"), "y2": {"field": "y_high"}}),
            {"transform": front, "mark": _LINE, "encoding": {"x": x, "y": y}},
            _marks(x, y),
            {"mark": _LABEL, "encoding": {"x": x, "y": y, "text": {"field": "label"}}},
        ],
        "config": _CONFIG,
    }


def _low(channel: Mapping[str, Any], name: str) -> Spec:
    return {**channel, "field": f"{name}_low"}


def _bar(encoding: Spec) -> Spec:
    return {
        "mark": {"type": "rule", "strokeWidth": 1},
        "encoding": {**encoding, "color": _COLOR, "opacity": _opacity(0.55, 0.2)},
    }


def _marks(x: Spec, y: Spec) -> Spec:
    """Filled where all bounds are kept, hollow where not; faint beside the front."""
    hollow = {"test": f"datum.kind === '{KINDS[2]}'", "value": 0}
    legend = {"title": "size, B", "format": ".2~s", "symbolFillColor": "#8a94a0", "tickCount": 3}
    return {
        "mark": {"type": "point", "filled": True, "strokeWidth": 1.5},
        "encoding": {
            "x": x,
            "y": y,
            "color": _COLOR,
            "stroke": {**_COLOR, "legend": None},
            "shape": {"field": "kind", "type": "nominal", "scale": _scale(_SHAPES), "legend": None},
            "size": {
                "field": "size",
                "type": "quantitative",
                "scale": {"range": [40, 420], "zero": True},
                "legend": legend,
            },
            "fillOpacity": {"condition": hollow, **_opacity(0.85, 0.3, key="value")},
        },
    }


def _opacity(strong: float, faint: float, *, key: str = "") -> Spec:
    if key:
        return {key: strong}
    others = f"datum.kind === '{KINDS[1]}' || datum.kind === '{KINDS[2]}'"
    return {"condition": {"test": others, "value": faint}, "value": strong}


def _scale(values: Sequence[str]) -> Spec:
    return {"domain": list(KINDS), "range": list(values)}


_OPEN: Spec = {"zero": False, "nice": True, "padding": 24}
_LINE: Spec = {
    "type": "line",
    "color": _COLORS[0],
    "strokeDash": [4, 3],
    "opacity": 0.6,
    "order": None,
}
_LABEL: Spec = {"type": "text", "dy": -16, "fontSize": 11, "fontWeight": 600}
_COLOR: Spec = {
    "field": "kind",
    "type": "nominal",
    "scale": _scale(_COLORS),
    "legend": {"title": None, "symbolType": "circle"},
}
_CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"},
    "view": {"stroke": None},
}
