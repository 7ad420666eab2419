"""What ran in integers of the model to take, what stayed in float, and why."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.report.lines import taken

Document = Mapping[str, Any]
_NAMED = 12
"""Layers of one reason that are named; the document has them all."""
_STAYED = re.compile(r"^(\S+) ('.*') stayed float (.*)$", re.DOTALL)


def integers(document: Document, device: str) -> list[str]:
    """Sentences about the pick of a device; empty where it asks for no integers.

    Args:
        document: With candidates and verdicts.
        device: Of the study.
    """
    point = taken(document, device)
    lowered = None if point is None else point["lowered"]
    if point is None or lowered is None or not (lowered["asked"] or lowered["ran"]):
        return []
    told = [f"{point['id']}: {lowered['text']}"]
    return [*told, *by_reason(lowered["stayed"]), *lowered["between"]]


def by_reason(stayed: Sequence[str]) -> list[str]:
    """Sentences of layers that stayed in float, those of one reason together.

    Args:
        stayed: A sentence a layer, as `Lowered` has them.
    """
    found: dict[str, list[str]] = {}
    for sentence in stayed:
        parts = _STAYED.match(sentence)
        kind, name, why = parts.groups() if parts else ("", sentence, "")
        found.setdefault(why, []).append(f"{kind} {name}".strip())
    told: list[str] = []
    for why, names in found.items():
        shown, left = ", ".join(names[:_NAMED]), len(names) - _NAMED
        shown += f" and {left} more" if left > 0 else ""
        told.append(f"{shown} stayed float {why}" if why else shown)
    return told
