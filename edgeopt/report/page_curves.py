"""Figures of a search and of several devices: hypervolume over measurements, ranks."""

from collections.abc import Mapping
from typing import Any

from edgeopt.report.figures import CONFIG, WIDTH, Spec
from edgeopt.report.words import count, quantity


def progress_figure(document: Mapping[str, Any], device: str) -> Spec | None:
    """Hypervolume over measurements, a line a strategy; None where nothing was searched."""
    found = document["progress"][device]
    if found is None or len(found["series"]) < 2:
        return None
    series = found["series"][: len(_LINES)]
    values = [
        {"strategy": each["strategy"], "n": n, "volume": volume}
        for each in series
        for n, volume, _ in each["points"]
    ]
    names = list(dict.fromkeys(each["strategy"] for each in series))
    scale = {"domain": names, "range": [*_LINES[: len(names)]]}
    dashes = {"domain": names, "range": [*_DASHES[: len(names)]]}
    legend = {"title": None, "orient": "bottom", "direction": "horizontal", "labelLimit": 260}
    volume = {"title": "hypervolume (more is better)", "format": ".2~f", "tickCount": 5}
    return {
        **_FRAME,
        "height": 220,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2, "aria": False},
        "encoding": {
            "x": {"field": "n", "type": "quantitative", "axis": {"title": "measurements"}},
            "y": {"field": "volume", "type": "quantitative", "axis": volume},
            "color": {"field": "strategy", "type": "nominal", "scale": scale, "legend": legend},
            "strokeDash": {"field": "strategy", "type": "nominal", "scale": dashes},
        },
    }


def compared(document: Mapping[str, Any], device: str) -> str:
    """How large the front was when each had spent as much: other studies, else own strategies."""
    found = document["progress"][device]
    if found["text"]:
        return found["text"][:1].upper() + found["text"][1:]
    searches = [
        s for s in found["series"] if s["kind"] == "strategy" and s["strategy"] not in _NONE
    ]
    if len(searches) < 2:
        return "No other search of this question is in the store: nothing is compared"
    equal = min(len(each["points"]) for each in searches)
    told = ", ".join(f"{s['strategy']} {s['points'][equal - 1][1]:.3f}" for s in searches)
    return f"Hypervolume after {count(equal, 'measurement')} of each: {told}"


def reference_text(document: Mapping[str, Any], device: str) -> str:
    """The reference point of a device's hypervolume in words."""
    found = document["progress"][device]
    points = document["candidates"][device]
    units = {n: m["unit"] for p in points for n, m in p["metrics"].items()}
    said = zip(found["objectives"], found["reference"], strict=True)
    return ", ".join(f"{n.replace('_', ' ')} {quantity(abs(c), units[n])}" for n, c in said)


def rank_figure(document: Mapping[str, Any]) -> Spec | None:
    """Ranks by latency from device to device; None where no two devices can be compared."""
    across: Mapping[str, Any] | None = document["across"]
    if across is None or len(across["ranks"]) < 2:
        return None
    ranked: list[Mapping[str, Any]] = across["ranks"][:_RANKED]
    devices: list[str] = across["devices"]
    order = {d: sorted(range(len(ranked)), key=lambda m: ranked[m]["ranks"][d]) for d in devices}
    values = [
        {
            "model": f"{place}",
            "device": device,
            "rank": 1 + order[device].index(place),
            "id": model["ids"][device],
            "broken": device in model["broken"],
        }
        for place, model in enumerate(ranked)
        for device in devices
    ]
    x: Spec = {"field": "device", "type": "nominal", "sort": devices, "scale": {"padding": 0.6}}
    x |= {"axis": {"title": None, "labelAngle": 0, "orient": "top", "labelLimit": 160}}
    y: Spec = {
        "field": "rank",
        "type": "quantitative",
        "scale": {"reverse": True, "zero": False, "padding": 12},
    }
    ticks = list(range(1, len(ranked) + 1))
    y |= {"axis": {"title": "rank by latency", "values": ticks, "grid": False}}
    colour = {"field": "model", "type": "nominal", "legend": None, "scale": {"range": [*_LINES]}}
    hollow = {"condition": {"test": "datum.broken", "value": 0}, "value": 1}
    label = {"type": "text", "dx": 12, "align": "left", "fontSize": 10, "aria": False}
    return {
        **_FRAME,
        "height": max(140, 24 * len(ranked)),
        "data": {"values": values},
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "mark": {"type": "line", "opacity": 0.7, "aria": False},
                "encoding": {"color": colour, "detail": {"field": "model"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "aria": False},
                "encoding": {
                    "color": colour,
                    "stroke": {**colour, "legend": None},
                    "fillOpacity": hollow,
                },
            },
            {"mark": label, "encoding": {"text": {"field": "id", "type": "nominal"}}},
        ],
    }


_RANKED = 12
_NONE = {"static", "confirm"}
"""Accounts that are no search: the usual ways, and what is measured again."""
_LINES = (*("#2a78c8", "#d98e04", "#0f8a6d", "#c4587a", "#7d6bc9", "#7d8794"), "#d1495b")
_DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (1, 0), (6, 3), (2, 2))
_FRAME: Spec = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "width": WIDTH,
    "background": None,
    "padding": 8,
    "config": CONFIG,
}
