"""Every trial as a row of CSV, numbers in SI units, for a notebook or a spreadsheet."""

import csv
import io
from collections.abc import Mapping
from typing import Any

from edgeopt.report.markdown import metric_names

_FIXED = ("device", "id", "label", "role", "standing", "strategy", "protocol", "status", "reason")
_UNITS = {"s": "_s", "B": "_bytes", "J": "_j", "W": "_w", "C": "_c"}
_LAST = ("ratio", "ratio_low", "ratio_high", "summary", "runtime", "model", "recipe_digest")


def table(document: Mapping[str, Any]) -> str:
    """CSV with one header line; a value that is absent is an empty cell."""
    devices = document["candidates"]
    points = [point for found in devices.values() for point in found]
    units = {n: m["unit"] for p in points for n, m in p["metrics"].items()}
    columns = {name: f"{name}{_UNITS.get(units[name], '')}" for name in metric_names(points)}
    names = [f"{c}{part}" for c in columns.values() for part in ("", "_low", "_high")]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*_FIXED, *names, *_LAST], lineterminator="\n")
    writer.writeheader()
    for device, found in devices.items():
        for point in found:
            writer.writerow({k: _safe(v) for k, v in _row(device, point, columns).items()})
    return stream.getvalue()


def _row(device: str, point: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    failure = point["failure"]
    ratio: Mapping[str, Any] = point["ratio"] or {}
    row = {name: point.get(name, "") for name in (*_FIXED, *_LAST)}
    reasons = [*point["verdict"]["reasons"], *point["broken_bounds"], *point["notes"]]
    row["device"] = device
    row["status"] = point["verdict"]["status"]
    row["reason"] = failure["reason"] if failure else "; ".join(reasons)
    row["ratio"] = ratio.get("value")
    row["ratio_low"], row["ratio_high"] = ratio.get("low"), ratio.get("high")
    for name, metric in point["metrics"].items():
        row[columns[name]] = metric["value"]
        ends: Mapping[str, Any] = metric["interval"] or {}
        row[f"{columns[name]}_low"] = ends.get("low")
        row[f"{columns[name]}_high"] = ends.get("high")
    return row


def _safe(value: Any) -> Any:
    """No text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in set("=+-@\t\r") else value
