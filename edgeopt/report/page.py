"""The report as one HTML file that needs nothing else: no network, and no script to be read.

The markup holds the verdicts, a drawn figure a device and every candidate. Scripts add what needs
a hand: other axes, brushes, sorting, the difference between two models.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from edgeopt.report.devices import metric_title
from edgeopt.report.markdown import metric_names
from edgeopt.report.page_curves import compared, reference_text
from edgeopt.report.page_data import page_data
from edgeopt.report.page_figures import figures
from edgeopt.report.page_quality import box, sparkline
from edgeopt.report.page_vega import vega_script
from edgeopt.units import format_seconds

Document = Mapping[str, Any]
_ALONE: Mapping[str, Any] = {"regret": []}
_SCRIPTS = ("state", "explorer", "parallel", "table", "layers", "start")
LONG = 60
"""From so many rows on, paper shows only what stands on the front or has a name."""


def page(document: Document) -> str:
    """The whole page. Everything from the document is escaped."""
    devices = list(document["study"]["devices"])
    drawn = figures(document)
    vega = vega_script() if any(f.drawn for f in drawn.fronts.values()) else None
    return _template().render(
        document=document,
        study=document["study"],
        devices=devices,
        figures=drawn,
        metrics={name: metric_names(document["candidates"][name]) for name in devices},
        title=metric_title,
        heat=_heat,
        sparkline=sparkline,
        box=box,
        seconds=_seconds,
        reference=reference_text,
        compared=compared,
        cells={(r["pick_of"], r["used_on"]): r for r in (document["across"] or _ALONE)["regret"]},
        long=LONG,
        data=_packed(json.dumps(page_data(document), separators=(",", ":"))),
        style=_asset("page.css"),
        vega=None if vega is None else _packed(vega),
        script=Markup("\n").join(_asset(f"{name}.js") for name in _SCRIPTS),
    )


def _packed(text: str) -> Markup:
    """What a script unpacks before it uses it: a third of the size, and nothing to be escaped."""
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode())


def _seconds(value: float | None) -> str:
    return "" if value is None else format_seconds(value)


def _heat(value: float) -> int:
    """How strongly a price is coloured: per cent, twice the latency at the most; text says it."""
    return round(40 * min(max(value, 0.0), 1.0))


@cache
def _asset(name: str) -> Markup:
    return Markup(files("edgeopt.report").joinpath("assets", name).read_text(encoding="utf-8"))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("edgeopt.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")
