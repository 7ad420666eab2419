"""`edgeopt pick`: one model of a study's front, chosen by limits and a preference."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgeopt.api.report import study_document
from edgeopt.errors import NothingToDoError, UsageError
from edgeopt.units import format_value, parse_bytes, parse_duration_s

_PARSERS: Mapping[str, Callable[[str], float]] = {
    "latency": parse_duration_s,
    "size": parse_bytes,
    "peak_memory": parse_bytes,
}
_PREFER: Mapping[str, tuple[str, int]] = {
    "fastest": ("latency", 1),
    "smallest": ("size", 1),
    "most_accurate": ("accuracy", -1),
}


def pick(
    study: str | None,
    *,
    device: str,
    limits: tuple[str, ...],
    prefer: str,
    store: Path | None,
) -> dict[str, Any]:
    """The preferred member of the front within the limits, and the reason in words.

    Raises:
        UsageError: A limit or preference that is not known.
        NothingToDoError: No member keeps the limits; the nearest miss is named.
    """
    document = study_document(study, store=store)
    members: list[dict[str, Any]] = document["fronts"].get(device, [])
    bounds = dict(_limit(text) for text in limits)
    kept = [m for m in members if all(_value(m, k) <= bound for k, bound in bounds.items())]
    if not kept:
        raise NothingToDoError(
            f"no model of the front on {device} keeps {', '.join(limits) or 'anything'}",
            hint="loosen a limit, or search longer with a larger --budget",
        )
    chosen = _preferred(document, device, kept, prefer)
    described = ", ".join(
        f"{name} {format_value(metric['value'], metric['unit'])}"
        for name, metric in chosen["metrics"].items()
        if name in {"latency", "accuracy", "agreement", "size", "peak_memory"}
    )
    why = f"{prefer.replace('_', ' ')} of {len(kept)} models that keep the limits"
    text = f"{chosen['id']}: {described}\n  {why}"
    return {
        "schema_version": 1,
        "study": document["study"],
        "pick": chosen,
        "why": why,
        "text": text,
    }


def _preferred(
    document: Mapping[str, Any], device: str, kept: list[dict[str, Any]], prefer: str
) -> dict[str, Any]:
    if prefer in _PREFER:
        metric, sign = _PREFER[prefer]
        return min(kept, key=lambda member: sign * _value(member, metric))
    if prefer != "knee":
        raise UsageError(
            f"there is no preference {prefer!r}",
            hint=f"known: {', '.join((*_PREFER, 'knee'))}",
        )
    names = ("latency", "size", "accuracy")
    spans = {n: _span([_value(m, n) for m in kept]) for n in names}
    return min(kept, key=lambda member: _distance(member, spans))


def _span(values: list[float]) -> tuple[float, float]:
    finite = [value for value in values if abs(value) != float("inf")] or [0.0]
    return min(finite), max(finite)


def _distance(member: Mapping[str, Any], spans: Mapping[str, tuple[float, float]]) -> float:
    """Squared distance to the ideal point, every metric scaled to the range of the kept ones."""
    total = 0.0
    for name, (low, high) in spans.items():
        value = _value(member, name)
        if high > low and abs(value) != float("inf"):
            best = high if name == "accuracy" else low
            total += ((value - best) / (high - low)) ** 2
    return total


def _value(member: Mapping[str, Any], name: str) -> float:
    metrics = member["metrics"]
    found = metrics.get(name) or (metrics.get("agreement") if name == "accuracy" else None)
    worst = float("-inf") if name == "accuracy" else float("inf")
    return worst if found is None else float(found["value"])


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name not in _PARSERS or not value:
        raise UsageError(
            f"{text!r} is not a limit",
            hint=f"write --max latency=8ms; known: {', '.join(_PARSERS)}",
        )
    return name, _PARSERS[name](value)
