"""What the scripts of a page read: columns of numbers, and the layers of models that have them."""

from collections.abc import Mapping
from typing import Any

from edgeopt.report.alignment import aligned
from edgeopt.report.figures import COLORS, LABELS, Axes, specification
from edgeopt.report.layers import rows
from edgeopt.report.page_points import KINDS, axes, columns, default_axes

Document = Mapping[str, Any]


def page_data(document: Document) -> dict[str, Any]:
    """What the scripts read: columns of numbers, and the layers of the models that have them."""
    devices, known = list(document["study"]["devices"]), axes(document)
    return {
        "study": document["study"]["id"],
        "axes": known,
        "kinds": KINDS,
        "colors": COLORS,
        "shown": default_axes(known) if known else [],
        "specs": _specifications(known) if known else None,
        "labels": LABELS,
        "devices": [{"name": name, **columns(document, name, known)} for name in devices],
        "layers": document["layers"],
        "partners": _partners(document),
        "built": [_built(document, name) for name in devices],
        "take": [document["verdict"][name]["take"] for name in devices],
        "given": [given and given["id"] for given in map(document["baseline"].get, devices)],
    }


def _specifications(known: Axes) -> dict[str, Any]:
    """The front figure without points: coloured by what a point is, and by a value."""
    across, up, _ = default_axes(known)
    return {
        "kind": specification(known, (across, up, "kind"), {}),
        "value": specification(known, (across, up, across), {}),
    }


def _built(document: Document, device: str) -> dict[str, Any]:
    """Id to what is told of the layers of a model there, and a caption; only where it is told."""
    return {
        p["id"]: {**p["layers"], "caption": p["label"] or p["summary"]}
        for p in document["candidates"][device]
        if p["layers"]
    }


def _partners(document: Document) -> dict[str, list[int | None]]:
    """Key of a layer table to the positions of its layers' partners in the given model's table.

    Two models meet there: what has the same partner is the same layer.
    """
    points = [p for found in document["candidates"].values() for p in found if p["layers"]]
    given = next((p for p in points if p["role"] == "baseline"), None)
    if given is None:
        return {}
    found: dict[str, list[int | None]] = {}
    before = rows(document, given)
    for point in points:
        key = point["layers"]["table"]
        if key not in found:
            after = rows(document, point)
            pairs = {j: i for i, j in aligned(before, after) if j is not None}
            found[key] = [pairs[j] for j in range(len(after))]
    return found
