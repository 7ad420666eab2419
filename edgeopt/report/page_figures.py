"""The figures that stand drawn in a page: fronts, hypervolume, ranks across devices."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from edgeopt.report.figures import front_figure, svg
from edgeopt.report.page_curves import progress_figure, rank_figure

INSTALL = "pip install 'edgeopt[report]'"
_ID = re.compile(r'\b(id="|url\(#|href="#|xlink:href="#)')
_FEW = "fewer than two measured models: nothing to draw"
_BARE = f"the figure needs {INSTALL}; the table is complete"
_NUMBERS = re.compile(r' (?:d|transform|x|y|x2|y2)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}")
_SIZE = re.compile(r'(<svg[^>]*?) width="(\d+)" height="(\d+)"')


@dataclass(frozen=True, kw_only=True)
class Figure:
    """SVG, or why there is none."""

    drawn: Markup | None
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All of a page.

    Args:
        fronts: By device.
        progress: By device; devices without a search are left out.
        ranks: Of models across devices; None for one device.
    """

    fronts: Mapping[str, Figure]
    progress: Mapping[str, Figure]
    ranks: Figure | None


def figures(document: Mapping[str, Any]) -> Figures:
    """Everything that a page shows drawn."""
    devices = document["study"]["devices"]
    specs = {name: front_figure(document, name) for name in devices}
    curves = {name: progress_figure(document, name) for name in devices}
    ranks = rank_figure(document)
    return Figures(
        fronts={n: _figure(spec, f"f{i}", _FEW) for i, (n, spec) in enumerate(specs.items())},
        progress={n: _figure(c, f"g{i}", "") for i, (n, c) in enumerate(curves.items()) if c},
        ranks=None if ranks is None else _figure(ranks, "r", ""),
    )


def _figure(spec: Mapping[str, Any] | None, prefix: str, otherwise: str) -> Figure:
    """Several figures stand in one page, so the ids that they refer to must differ."""
    if spec is None:
        return Figure(drawn=None, missing=otherwise)
    drawn = svg(dict(spec))
    if drawn is None:
        return Figure(drawn=None, missing=_BARE)
    drawn = _NUMBERS.sub(lambda found: _LONG.sub(_rounded, found.group()), drawn)
    drawn = _ID.sub(rf"\g<1>{prefix}-", drawn)
    return Figure(drawn=Markup(_SIZE.sub(r'\1 style="width:\2px"', drawn, count=1)))


def _rounded(found: re.Match[str]) -> str:
    """A hundredth of a pixel is enough."""
    return f"{float(found.group()):.2f}".rstrip("0").rstrip(".")
