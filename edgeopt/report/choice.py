"""One model of a front by limits and a preference, and why the others are not it."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.errors import NothingToDoError, UsageError
from edgeopt.report.difference import Side, difference
from edgeopt.report.lines import WIDTH, metric_text, quality_of, table, wrapped
from edgeopt.report.picks import amount
from edgeopt.report.words import count, quantity

Document = Mapping[str, Any]
Point = Mapping[str, Any]
UNITS = {"latency": "s", "energy": "J", "size": "B", "peak_memory": "B", "accuracy": "1"}
PREFERENCES: Mapping[str, tuple[str, int]] = {
    "fastest": ("latency", 1),
    "smallest": ("size", 1),
    "most_accurate": ("accuracy", -1),
    "least_energy": ("energy", 1),
}
KNEE = "knee"
_SHOWN = 3


def chosen(
    document: Document,
    device: str,
    *,
    most: Mapping[str, float],
    least: Mapping[str, float],
    prefer: str,
    where: str = "",
) -> dict[str, Any]:
    """The preferred member of a device's front within the limits, as a JSON object.

    Args:
        document: The report's.
        device: One of the study's.
        most: Metric to the largest value that is allowed, in SI units.
        least: Metric to the smallest.
        prefer: A key of `PREFERENCES`, or `knee`.
        where: What the next command must say to find the study.

    Raises:
        UsageError: The study has no such device, or there is no such preference.
        NothingToDoError: No member keeps the limits; the nearest miss is named.
    """
    known = document["study"]["devices"]
    if device not in known:
        raise UsageError(
            f"the study was not run on {device!r}", hint=f"its devices: {', '.join(known)}"
        )
    members: Sequence[Point] = document["fronts"][device]
    missed = {p["id"]: _misses(p, most, least) for p in members}
    kept = [point for point in members if not missed[point["id"]]]
    limits = _limits(most, least)
    if not kept:
        raise _nothing(device, members, missed, limits)
    found, why = _preferred(kept, prefer)
    within = f" with {limits}" if limits else ""
    return {
        "schema_version": 1,
        "study": document["study"],
        "device": device,
        "pick": found,
        "why": f"{why} of {count(len(kept), 'model')} of the front{within}{_ties(found, kept)}",
        "kept": [point["id"] for point in kept],
        "refused": [{"id": i, "reason": "; ".join(each)} for i, each in missed.items() if each],
        "against_given": _against(document["baseline"][device], found, device),
        "next": f"edgeopt export {document['study']['id']} {found['id']} -o {found['id']}{where}",
    }


def _ties(found: Point, kept: Sequence[Point]) -> str:
    """Whose latency cannot be told from the chosen one's, among those that keep the limits."""
    tied = [point["id"] for point in kept if point["id"] in found["ties"]]
    return f"; its latency cannot be told from that of {', '.join(tied)}" if tied else ""


def choice_text(made: Mapping[str, Any], document: Document, width: int = WIDTH) -> str:
    """A choice for a terminal: the pick beside the given model and what else keeps the limits."""
    device, found = made["device"], made["pick"]
    quality = quality_of(document)
    points = {point["id"]: point for point in document["candidates"][device]}
    base = document["baseline"][device]
    rows = [("given", base)] if base is not None and base["id"] != found["id"] else []
    rows.append(("PICK", found))
    rows += [("also", points[i]) for i in made["kept"] if i not in {p["id"] for _, p in rows}][
        :_SHOWN
    ]
    head = ("", "id", "latency", "against given", "size", quality)
    lines = table([head, *(_cells(name, point, quality) for name, point in rows)], width=width)
    lines += wrapped("why", f"{found['id']}: {made['why']}", 3, width)
    lines += wrapped("what", found["summary"], 2, width)
    refused = [f"{each['id']}: {each['reason']}" for each in made["refused"]]
    for title, sentence in zip(["not", *[""] * _SHOWN], refused[:_SHOWN], strict=False):
        lines += wrapped(title, sentence, 1, width)
    return "\n".join([*lines, f"next     {made['next']}"]) + "\n"


def _cells(name: str, point: Point, quality: str) -> tuple[str, ...]:
    ratio = point["ratio"]
    return (
        name,
        point["id"],
        metric_text(point, "latency").partition(" [")[0],
        "" if ratio is None else ratio["short"],
        metric_text(point, "size"),
        metric_text(point, quality).partition(" [")[0],
    )


def _value(point: Point, metric: str) -> float | None:
    """Without labels the accuracy is an agreement."""
    found = amount(point, metric)
    return amount(point, "agreement") if found is None and metric == "accuracy" else found


def _misses(point: Point, most: Mapping[str, float], least: Mapping[str, float]) -> list[str]:
    found: list[str] = []
    for limits, side, sign in ((most, "above", 1), (least, "below", -1)):
        for metric, limit in limits.items():
            value, unit = _value(point, metric), UNITS[metric]
            if value is None:
                reason = point["absent"].get(metric, "it was not measured")
                found.append(f"{metric.replace('_', ' ')} is not known: {reason}")
            elif sign * (value - limit) > 0:
                shown = quantity(value, unit)
                found.append(
                    f"{metric.replace('_', ' ')} {shown} is {side} {quantity(limit, unit)}"
                )
    return found


def _limits(most: Mapping[str, float], least: Mapping[str, float]) -> str:
    words = [f"{m.replace('_', ' ')} at most {quantity(v, UNITS[m])}" for m, v in most.items()]
    words += [f"{m.replace('_', ' ')} at least {quantity(v, UNITS[m])}" for m, v in least.items()]
    return ", ".join(words)


def _nothing(
    device: str, members: Sequence[Point], missed: Mapping[str, Sequence[str]], limits: str
) -> NothingToDoError:
    """Fewest limits missed is nearest; of equals the first of the front."""
    if not members:
        return NothingToDoError(
            f"the front on {device} is empty: no model keeps the bounds of the study",
            hint="the report says which is nearest; loosen --max-drop or another bound",
        )
    nearest = min(members, key=lambda point: len(missed[point["id"]]))
    return NothingToDoError(
        f"no model of the front on {device} has {limits}",
        hint=f"nearest is {nearest['id']}: {'; '.join(missed[nearest['id']])}; loosen a limit, or "
        "search longer with a larger --budget",
    )


def _preferred(kept: Sequence[Point], prefer: str) -> tuple[Point, str]:
    if prefer == KNEE:
        return _knee(kept), "nearest to the best of everything"
    if prefer not in PREFERENCES:
        raise UsageError(
            f"there is no preference {prefer!r}",
            hint=f"known: {', '.join((*PREFERENCES, KNEE))}",
        )
    metric, sign = PREFERENCES[prefer]
    known = [point for point in kept if _value(point, metric) is not None]
    if not known:
        reason = kept[0]["absent"].get(metric, "it was not measured")
        raise UsageError(f"{metric} is not known: {reason}", hint="choose another --prefer")
    best = min(known, key=lambda point: sign * (_value(point, metric) or 0.0))
    return best, prefer.replace("_", " ")


def _knee(kept: Sequence[Point]) -> Point:
    """Least squared distance to the ideal point, every metric scaled to the range of the kept."""
    total = {point["id"]: 0.0 for point in kept}
    for metric in UNITS:
        values = [_value(point, metric) for point in kept]
        known = [value for value in values if value is not None]
        if len(known) < len(kept) or max(known) == min(known):
            continue
        best = max(known) if metric == "accuracy" else min(known)
        for point, value in zip(kept, known, strict=True):
            total[point["id"]] += ((value - best) / (max(known) - min(known))) ** 2
    return min(kept, key=lambda point: total[point["id"]])


def _against(base: Point | None, found: Point, device: str) -> list[dict[str, Any]]:
    """What changes from the given model, metric by metric, as `compare` says it."""
    if base is None:
        return []
    sides = (Side(name=p["id"], what="", device=device, point=p) for p in (base, found))
    return difference(*sides)["metrics"]
