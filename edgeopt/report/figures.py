"""The figure of a device's front as a Vega-Lite specification, and as SVG and PNG.

One specification for all: drawn here for paper and for readers without scripts, drawn again by
the page when a reader chooses other axes. Shapes and fills tell what a point is, so that the
figure holds in dark mode, in print, and for a reader who does not see red from green.
"""

from collections.abc import Mapping
from typing import Any

from edgeopt.report.page_points import KINDS, axes, columns, default_axes, rows

Spec = dict[str, Any]
Axes = Mapping[str, Mapping[str, Any]]
COLORS = ("#2a78c8", "#7d8794", "#8f6bb3", "#d1495b", "#b07c10", "#0f8a6d")
SHAPES = ("circle", "circle", "circle", "diamond", "square", "triangle-up")
_RAMP = ("#e0982f", "#c4587a", "#3f62c9")
"""Of middling lightness from end to end: read on white and on black."""
WIDTH, _HEIGHT = 600, 340
_SHOWN = "(kept === null || kept[datum.id])"
"""Whether the page's filters keep a point; in a drawn figure all are kept."""
_SCALE = 2.0


def front_figure(document: Mapping[str, Any], device: str) -> Spec | None:
    """The specification with its data inside; None where fewer than two points can be drawn."""
    known = axes(document)
    if not known:
        return None
    found, shown = columns(document, device, known), default_axes(known)
    drawn = rows(found, known, shown)
    if sum(row["x"] is not None and row["y"] is not None for row in drawn) < 2:
        return None
    spec = specification(known, shown, found["bounds"])
    return {**spec, "datasets": {"points": drawn}}


def svg(spec: Spec) -> str | None:
    """The drawn specification; None where vl-convert (the extra `report`) is not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    return vl_convert.vega_to_svg(_vega(spec), allowed_base_urls=[])


def png(spec: Spec) -> bytes | None:
    """The same on white, two pixels a point; None where vl-convert is not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    drawn = _vega({**spec, "background": "white"})
    return vl_convert.vega_to_png(drawn, scale=_SCALE, allowed_base_urls=[])


def _vega(spec: Spec) -> Spec:
    import vl_convert

    made = dict(vl_convert.vegalite_to_vega(spec))
    labels = [LABELS] if any(mark.get("name") == "rings_marks" for mark in made["marks"]) else []
    return {**made, "marks": [*made["marks"], *labels]}


def drawings(document: Mapping[str, Any]) -> dict[str, str | bytes]:
    """File name to content: the front of each device as SVG and PNG, where they can be drawn."""
    found: dict[str, str | bytes] = {}
    for device in document["study"]["devices"]:
        spec = front_figure(document, device)
        drawn = None if spec is None else svg({**spec, "background": "white"})
        image = None if spec is None else png(spec)
        if drawn is not None and image is not None:
            found |= {f"front-{device}.svg": drawn, f"front-{device}.png": image}
    return found


def specification(known: Axes, shown: tuple[str, str, str], bounds: Mapping[str, float]) -> Spec:
    """The front figure without its points.

    Args:
        known: What can stand on an axis.
        shown: On x, on y, and as colour (`kind` colours by what a point is).
        bounds: Axis to limit, in SI units.
    """
    across, up, shade = shown
    x, y = _position("x", known[across]), _position("y", known[up])
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": WIDTH,
        "height": _HEIGHT,
        "background": None,
        "padding": {"left": 8, "top": 20, "bottom": 8, "right": 16},
        "params": _params(known, shown, bounds),
        "data": {"name": "points"},
        "transform": _NEAR,
        "layer": [
            _bound("x", x),
            _bound("y", y),
            _bar({"x": {**x, "field": "x_low"}, "x2": {"field": "x_high"}, "y": y}),
            _bar({"x": x, "y": {**y, "field": "y_low"}, "y2": {"field": "y_high"}}),
            _staircase(x, y),
            *_marks(x, y, shade, "" if shade == "kind" else known[shade]["title"]),
            _ring(x, y),
            _LEFT_OUT,
        ],
        "config": CONFIG,
    }


def _params(
    known: Axes, shown: tuple[str, str, str], bounds: Mapping[str, float]
) -> list[dict[str, Any]]:
    """What expressions read: budgets, directions, and what the page sets while it is read."""
    limits = [bounds.get(name) for name in shown[:2]]
    scaled = [
        None if b is None else b / known[n]["factor"]
        for b, n in zip(limits, shown[:2], strict=True)
    ]
    signs = [{"low": 1, "high": -1}.get(known[name]["better"], 0) for name in shown[:2]]
    return [
        {"name": "x_bound", "value": scaled[0]},
        {"name": "y_bound", "value": scaled[1]},
        {"name": "x_sign", "value": signs[0]},
        {"name": "y_sign", "value": signs[1]},
        {"name": "everything", "value": False},
        {"name": "kept", "value": None},
        {"name": "pointed", "value": ""},
    ]


def _position(name: str, axis: Mapping[str, Any]) -> Spec:
    arrow = {"low": " (less is better)", "high": " (more is better)"}.get(axis["better"], "")
    return {
        "field": name,
        "type": "quantitative",
        "scale": {"zero": False, "nice": True, "padding": 18},
        "axis": {"title": axis["title"] + arrow, "format": axis["format"], "tickCount": 6},
    }


def _bound(name: str, position: Spec) -> Spec:
    """A budget, drawn where it lies near enough to what matters."""
    low, high = f"datum.{name}0 - datum.{name}r", f"datum.{name}1 + datum.{name}r"
    near = f"isNumber({name}_bound) && {name}_bound >= {low} && {name}_bound <= {high}"
    text = {"type": "text", "align": "left" if name == "x" else "right", "fontSize": 10}
    place = {"y": {"value": 8}} if name == "x" else {"x": {"value": "width"}}
    label = {**text, "dx": 4} if name == "x" else {**text, "dx": -2, "dy": 9}
    limit = [
        {"op": "max", "field": "limit", "as": "limit"},
        {"op": "max", "field": "near", "as": "near"},
    ]
    opacity = {"opacity": {"condition": {"test": "datum.near", "value": 1}, "value": 0}}
    at = {name: {**position, "field": "limit"}, **opacity}
    return {
        # Without a budget nearby the rule stands unseen on a point, and the axis stays as it is.
        "transform": [
            {"calculate": f"{near} ? {name}_bound : datum.{name}", "as": "limit"},
            {"calculate": f"{near} ? 1 : 0", "as": "near"},
            {"aggregate": limit},
        ],
        "layer": [
            {
                "mark": {"type": "rule", "strokeDash": [2, 3], "color": COLORS[3], "aria": False},
                "encoding": at,
            },
            {
                "mark": {**label, "color": COLORS[3], "aria": False},
                "encoding": {**at, **place, "text": {"value": "bound"}},
            },
        ],
    }


def _bar(encoding: Spec) -> Spec:
    """Intervals of what matters, and of the point that is looked at: all would hide all."""
    return {
        "transform": [{"filter": f"({_MATTERS} || datum.id === pointed) && {_SHOWN}"}],
        "mark": {"type": "rule", "strokeWidth": 1, "color": COLORS[1], "aria": False},
        "encoding": {**encoding, "opacity": _faded(0.75, 0.5)},
    }


def _staircase(x: Spec, y: Spec) -> Spec:
    """What is best of the two axes alone; nothing where one of them is no objective."""
    order = [{"field": "x_cost"}, {"field": "y_cost"}]
    return {
        "transform": [
            {"filter": f"x_sign * y_sign !== 0 && datum.kept && {_SHOWN}"},
            {"calculate": "x_sign * datum.x", "as": "x_cost"},
            {"calculate": "y_sign * datum.y", "as": "y_cost"},
            {"window": [{"op": "min", "field": "y_cost", "as": "best"}], "sort": order},
            {"window": [{"op": "lag", "field": "best", "as": "ahead"}], "sort": order},
            {"filter": "!isValid(datum.ahead) || datum.y_cost < datum.ahead"},
        ],
        "mark": {
            "type": "line",
            "interpolate": "step-after",
            "color": COLORS[0],
            "strokeDash": [4, 3],
            "opacity": 0.6,
            "aria": False,
        },
        "encoding": {"x": x, "y": y, "order": {"field": "x_cost", "type": "quantitative"}},
    }


def _marks(x: Spec, y: Spec, shade: str, title: str) -> list[Spec]:
    """Filled where all bounds are kept, else hollow; faint beside the front."""
    mark = {"type": "point", "strokeWidth": 1.6, "size": 70, "aria": False}
    encoding = {
        "x": x,
        "y": y,
        "color": colours(shade, title),
        "shape": _shape(shade),
        "opacity": _faded(0.95, 0.32),
    }
    return [
        {
            "transform": [{"filter": f"datum.kept === {kept}"}],
            "mark": {**mark, "filled": bool(kept)},
            "encoding": encoding,
        }
        for kept in (0, 1)
    ]


def colours(shade: str, title: str) -> Spec:
    """The channel of a colour that tells what a point is, or how much it has of something."""
    if shade == "kind":
        scale = {"domain": list(KINDS), "range": list(COLORS)}
        return {"field": "kind", "type": "nominal", "scale": scale, "legend": _kinds(shade)}
    return {
        "field": "c",
        "type": "quantitative",
        "scale": {"range": list(_RAMP), "zero": False, "nice": False},
        "legend": {
            "title": title,
            "orient": "bottom",
            "direction": "horizontal",
            "tickCount": 4,
        },
    }


def _shape(shade: str) -> Spec:
    scale = {"domain": list(KINDS), "range": list(SHAPES)}
    return {"field": "kind", "type": "nominal", "scale": scale, "legend": _kinds(shade)}


def _kinds(shade: str) -> Spec:
    """A legend of what the shapes say; where colour tells the standing too, of all."""
    shown = list(KINDS) if shade == "kind" else list(KINDS[3:])
    place = {"orient": "bottom", "direction": "horizontal", "columns": 3}
    return {"title": None, **place, "values": shown}


def _ring(x: Spec, y: Spec) -> Spec:
    """Around the picks, and around the point that is looked at."""
    looked = {"test": "datum.id === pointed", "value": 420}
    return {
        "name": "rings",
        "transform": [
            {"filter": f"(datum.label !== '' || datum.id === pointed) && {_SHOWN}"},
            {
                "calculate": "datum.label === '' ? datum.id : datum.id + ' ' + datum.label",
                "as": "caption",
            },
        ],
        "mark": {"type": "point", "filled": False, "strokeWidth": 1.2, "aria": False},
        "encoding": {
            "x": x,
            "y": y,
            "size": {"condition": looked, "value": 190},
            "stroke": {"value": "#7d8794"},
        },
    }


def _faded(strong: float, faint: float) -> Spec:
    """Front, given model and usual ways strong; what a filter leaves out all but gone."""
    gone = {"test": f"!{_SHOWN}", "value": 0.04}
    beside = {"test": f"datum.kind === '{KINDS[1]}' || datum.kind === '{KINDS[2]}'", "value": faint}
    return {"condition": [gone, beside], "value": strong}


LABELS: Spec = {
    "type": "text",
    "from": {"data": "rings_marks"},
    "interactive": False,
    "encode": {
        "enter": {
            "text": {"signal": "datum.datum.caption"},
            "font": {"value": "system-ui, sans-serif"},
            "fontSize": {"value": 10.5},
            "fontWeight": {"value": 600},
            "fill": {"value": "black"},
        }
    },
    "transform": [
        {
            "type": "label",
            "size": {"signal": "[width + 12, height]"},
            "anchor": ["top", "bottom", "right", "left"] * 3,
            "offset": [1] * 4 + [14] * 4 + [28] * 4,
            # Avoiding the marks themselves needs a canvas, which drawing without a browser lacks.
            "avoidBaseMark": False,
        }
    ],
}
"""Vega's own placing of labels, which Vega-Lite does not know: no two on each other. It goes into
the specification after it has been turned into Vega, here and in the page."""
_LEFT_OUT: Spec = {
    "transform": [
        {
            "aggregate": [
                {"op": "count", "as": "near"},
                {"op": "max", "field": "total", "as": "total"},
            ]
        },
        {"filter": "datum.total > datum.near"},
        {"calculate": "(datum.total - datum.near) + ' too far away to be drawn'", "as": "said"},
    ],
    "mark": {"type": "text", "align": "right", "fontSize": 10, "fontStyle": "italic", "dy": -8},
    "encoding": {
        "x": {"value": "width"},
        "y": {"value": 0},
        "text": {"field": "said", "type": "nominal"},
    },
}
_ANCHORS = [
    {"op": op, "field": f"{axis}_held", "as": f"{axis}{place}"}
    for axis in ("x", "y")
    for place, op in enumerate(("min", "max"))
]
_MATTERS = (
    f"datum.front || datum.kind === '{KINDS[3]}' || "
    f"(datum.kept && indexof({list(KINDS[4:])}, datum.kind) >= 0)"
)
"""One point far away would flatten all others. What matters is the front, the given model and
the usual ways that keep the bounds; the figure leaves as much room again on either side."""
_WITHIN = " && ".join(
    f"datum.{a} >= datum.{a}0 - datum.{a}r && datum.{a} <= datum.{a}1 + datum.{a}r"
    for a in ("x", "y")
)
_NEAR: list[Spec] = [
    {"filter": "isValid(datum.x) && isValid(datum.y)"},
    {"calculate": f"({_MATTERS}) ? datum.x : null", "as": "x_held"},
    {"calculate": f"({_MATTERS}) ? datum.y : null", "as": "y_held"},
    {"joinaggregate": [*_ANCHORS, {"op": "count", "as": "total"}]},
    *(
        {"calculate": f"max(datum.{a}1 - datum.{a}0, 0.05 * abs(datum.{a}1))", "as": f"{a}r"}
        for a in ("x", "y")
    ),
    {"filter": f"everything || !isFinite(datum.x0) || ({_WITHIN})"},
]
CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "layout": {"bottom": {"direction": "vertical", "anchor": "start", "margin": 4}},
    },
    "view": {"stroke": None},
}
