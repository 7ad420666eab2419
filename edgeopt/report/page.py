"""The report as one HTML file that needs nothing else: no network, no script to be read.

Figures are drawn before (SVG inside the page); the script only sorts and filters the table.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from edgeopt.report.devices import metric_title
from edgeopt.report.figures import front_figure, svg
from edgeopt.report.markdown import metric_names

_ALONE: Mapping[str, Any] = {"regret": []}
INSTALL = "pip install 'edgeopt[report]'"
_ID = re.compile(r'\b(id="|url\(#|href="#|xlink:href="#)')


def page(document: Mapping[str, Any]) -> str:
    """The whole page. Everything from the document is escaped."""
    devices = list(document["study"]["devices"])
    return _template().render(
        document=document,
        study=document["study"],
        devices=devices,
        figures={name: _figure(document, name, index) for index, name in enumerate(devices)},
        metrics={name: metric_names(document["candidates"][name]) for name in devices},
        title=metric_title,
        heat=_heat,
        cells={(r["pick_of"], r["used_on"]): r for r in (document["across"] or _ALONE)["regret"]},
    )


def _heat(value: float) -> int:
    """How strongly a price is coloured: per cent, twice the latency at the most; text says it."""
    return round(40 * min(max(value, 0.0), 1.0))


def _figure(document: Mapping[str, Any], device: str, index: int) -> Mapping[str, Any]:
    """`{drawn, missing, left_out}`: SVG, or why there is none."""
    spec = front_figure(document, device)
    if spec is None:
        return {
            "drawn": None,
            "missing": "fewer than two measured models: nothing to draw",
            "left_out": 0,
        }
    drawn = svg(spec)
    if drawn is None:
        missing = f"the figure needs {INSTALL}; the table is complete"
        return {"drawn": None, "missing": missing, "left_out": 0}
    # Several figures stand in one page, so the ids that they refer to must differ.
    inline = Markup(_ID.sub(rf"\g<1>f{index}-", drawn))
    return {"drawn": inline, "missing": "", "left_out": spec["usermeta"]["left_out"]}


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
