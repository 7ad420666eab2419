"""A report in one of its formats, as what would be written to a file."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from edgeopt.errors import UsageError
from edgeopt.report.figures import front_figure, png, svg
from edgeopt.report.lines import WIDTH
from edgeopt.report.markdown import markdown
from edgeopt.report.table import table
from edgeopt.report.terminal import terminal

Document = Mapping[str, Any]
FORMATS = ("terminal", "html", "md", "json", "csv", "svg", "png", "schema")
INSTALL = "pip install 'edgeopt[report]'"
_COLUMN = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s*\]")
"""An array without another inside; a line end is never part of a JSON string."""
_BREAK = re.compile(r",\n\s+")


def rendered(
    document: Document, form: str, *, device: str | None = None, width: int = WIDTH
) -> str | bytes:
    """The report in one format; bytes where it is an image.

    Args:
        document: The report's.
        form: One of `FORMATS`.
        device: Whose front `svg` and `png` draw; None where the study has one device.
        width: Characters of a line, for `terminal`.

    Raises:
        UsageError: There is no such format or device, or nothing to draw, or nothing to draw with.
    """
    if form == "terminal":
        return terminal(document, width)
    if form == "html":
        from edgeopt.report.page import page

        return page(document)
    if form in {"svg", "png"}:
        return _drawn(document, form, device)
    if form == "md":
        return markdown(document)
    if form == "json":
        return as_json(document)
    if form == "csv":
        return table(document)
    if form == "schema":
        return schema()
    raise UsageError(f"there is no format {form!r}", hint=f"known: files, {', '.join(FORMATS)}")


def as_json(document: Document) -> str:
    """The document as text, a column of plain values on one line; `schema` describes it."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return _COLUMN.sub(lambda found: f"[{_BREAK.sub(', ', found.group(1))}]", text) + "\n"


def schema() -> str:
    """The JSON Schema of the document."""
    return files("edgeopt.report").joinpath("schema.json").read_text(encoding="utf-8")


def _drawn(document: Document, form: str, device: str | None) -> str | bytes:
    known = list(document["study"]["devices"])
    if device is None and len(known) > 1:
        raise UsageError(
            "a figure shows one device", hint=f"say which: --for {known[0]} (of {', '.join(known)})"
        )
    name = known[0] if device is None else device
    if name not in known:
        raise UsageError(
            f"the study was not run on {name!r}", hint=f"its devices: {', '.join(known)}"
        )
    spec = front_figure(document, name)
    if spec is None:
        raise UsageError(
            f"there is nothing to draw for {name}: fewer than two measured models",
            hint="search longer with a larger --budget",
        )
    drawn = svg({**spec, "background": "white"}) if form == "svg" else png(spec)
    if drawn is None:
        raise UsageError("figures need vl-convert", hint=INSTALL)
    return drawn
