"""Which member of a front to take, and why, in words that the intervals allow.

A win is a win over both: the given model, and what a competent user would ship without us.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.core.samples import TIE
from edgeopt.report.points import Point
from edgeopt.report.words import count

Pick = dict[str, str] | None
MARGIN = 0.1
"""As fast as another is what is at worst so much slower."""
SMALLER = 0.95
"""A model is called smaller from 5 % on."""


def amount(point: Mapping[str, Any], metric: str) -> float | None:
    """A metric's value; None where the point does not have it."""
    found = point["metrics"].get(metric)
    return None if found is None else found["value"]


def picks(
    members: Sequence[Point], baseline: Point | None, knee: str | None, quality: str
) -> dict[str, Pick]:
    """`fastest`, `smallest`, `knee` and `most_accurate` of a front, each `{id, reason}`."""
    ratio = next((p["ratio"]["short"] for p in members if p["id"] == knee and p["ratio"]), "–")
    reason = "nearest to the best of every objective, each scaled to the front's range"
    reason += "" if ratio == "–" else f"; {ratio}"
    return {
        "fastest": _fastest(members, baseline),
        "smallest": _smallest(members, baseline),
        "knee": None if knee is None else {"id": knee, "reason": reason},
        "most_accurate": _most_accurate(members, baseline, quality),
    }


def _best(members: Sequence[Point], metric: str, sign: int = 1) -> Point | None:
    known = [p for p in members if amount(p, metric) is not None]
    return min(known, key=lambda p: sign * (amount(p, metric) or 0.0), default=None)


def _fastest(members: Sequence[Point], baseline: Point | None) -> Pick:
    best = _best(members, "latency")
    if best is None:
        return None
    if _relation(best) == "faster":
        return {"id": best["id"], "reason": f"lowest latency: {best['ratio']['text']}"}
    if baseline is not None and _feasible(baseline):
        return {"id": baseline["id"], "reason": "nothing was shown to be faster"}
    return {
        "id": best["id"],
        "reason": "lowest latency within the bounds; not shown to be faster than the given model",
    }


def _smallest(members: Sequence[Point], baseline: Point | None) -> Pick:
    best = _best(members, "size")
    if best is None:
        return None
    before = None if baseline is None else amount(baseline, "size")
    text = best["metrics"]["size"]["text"]
    if baseline is None or before is None:
        return {"id": best["id"], "reason": text}
    if (amount(best, "size") or 0.0) < before:
        return {"id": best["id"], "reason": f"{text}, {best['changes']['size']}"}
    chosen = baseline if _feasible(baseline) else best
    return {"id": chosen["id"], "reason": "nothing smaller than the given model"}


def _most_accurate(members: Sequence[Point], baseline: Point | None, quality: str) -> Pick:
    best = _best(members, quality, sign=-1)
    if best is None:
        return None
    text = best["metrics"][quality]["text"]
    if best["role"] == "baseline" or baseline is None or quality not in baseline["metrics"]:
        return {"id": best["id"], "reason": text}
    given = baseline["metrics"][quality]["text"]
    return {"id": best["id"], "reason": f"{text}; the given model has {given}"}


def _feasible(point: Point) -> bool:
    return point["standing"] in {"front", "equal", "dominated"}


def _relation(point: Point) -> str:
    return "" if point["ratio"] is None else point["ratio"]["relation"]


def shown_faster(point: Point, other: Point) -> bool:
    """Whether the intervals of two ratios to the same baseline lie apart.

    Stricter than an interval of their quotient; under 5 % both need three fresh processes.
    """
    mine, theirs = point["ratio"], other["ratio"]
    if theirs is not None and theirs["relation"] == "reference":
        return _relation(point) == "faster"
    if mine is None or theirs is None or mine["high"] is None or theirs["low"] is None:
        return False
    fresh = min(mine["fresh_rounds"], theirs["fresh_rounds"]) >= 3
    told = fresh or mine["value"] <= theirs["value"] * (1 - TIE)
    return told and mine["high"] < theirs["low"]


def _shown_slower(point: Point, other: Point) -> bool:
    return _relation(point) == "slower" or shown_faster(other, point)


def _not_slower(point: Point, other: Point) -> bool:
    """Whether even the slow end of the interval is near the other's latency.

    That no difference was shown is not enough: a wide interval shows nothing.
    """
    mine, theirs = point["ratio"], other["ratio"]
    if mine is None or theirs is None or mine["high"] is None:
        return False
    if _shown_slower(point, other):
        return False
    return point is other or mine["high"] <= theirs["value"] * (1 + MARGIN)


def verdict(
    points: Sequence[Point],
    baseline: Point | None,
    shipped: Point | None,
    *,
    quality: str,
    decidable: float | None,
) -> dict[str, Any]:
    """What to take on one device.

    Args:
        points: All of the device, the front in its order.
        baseline: The given model.
        shipped: What would be shipped today; the baseline where nothing better is known.
        quality: Name of the accuracy metric.
        decidable: Smallest accuracy difference that the data can decide; None where unknown.

    Returns:
        `take` (id or None), `gained` (over both), `better_than_given`, `text`.
    """
    if baseline is None or shipped is None:
        return _say(None, "the given model has no valid measurement: nothing can be compared")
    members = [p for p in points if p["standing"] == "front"]
    others = [p for p in members if p["role"] == "search"]
    faster = [p for p in others if shown_faster(p, shipped) and _relation(p) == "faster"]
    if faster:
        best = _as_fast_and_more_accurate(_best(faster, "latency") or faster[0], faster, quality)
        why = f"{best['ratio']['text']} than the given model"
        return _gain(best, baseline, shipped, quality, why)
    smaller = _smaller(others, shipped, [p for p in points if p["role"] == "peer"])
    if smaller is not None:
        return _gain(smaller, baseline, shipped, quality, f"smaller, {_speed(smaller)}")
    better = _more_accurate(others, shipped, quality, decidable)
    if better is not None:
        return _gain(better, baseline, shipped, quality, f"more accurate, {_speed(better)}")
    return _no_gain(points, baseline, shipped)


def _as_fast_and_more_accurate(best: Point, others: Sequence[Point], quality: str) -> Point:
    """Among those that are as fast even at the slow end of their interval, the most accurate.

    A wide interval ties with everything and is no reason to give speed away.
    """
    close = [p for p in others if p is best or _not_slower(p, best)]
    return max(close, key=lambda p: (amount(p, quality) or 0.0, p is best))


def _smaller(others: Sequence[Point], shipped: Point, peers: Sequence[Point]) -> Point | None:
    """Smaller than whatever a user could ship without us; in doubt a peer is a rival."""
    rivals = [shipped, *(p for p in peers if _feasible(p) and not _shown_slower(p, shipped))]
    smallest = _best(rivals, "size")
    found = _best([p for p in others if _not_slower(p, shipped)], "size")
    if smallest is None or found is None:
        return None
    limit = SMALLER * (amount(smallest, "size") or 0.0)
    return found if (amount(found, "size") or 0.0) <= limit else None


def _more_accurate(
    others: Sequence[Point], shipped: Point, quality: str, decidable: float | None
) -> Point | None:
    before = amount(shipped, quality)
    found = _best([p for p in others if _not_slower(p, shipped)], quality, sign=-1)
    if found is None or before is None or decidable is None:
        return None
    return found if (amount(found, quality) or 0.0) - before >= decidable else None


def _gain(best: Point, baseline: Point, shipped: Point, quality: str, why: str) -> dict[str, Any]:
    parts = [why, *_changes(best, quality)]
    text = f"take {best['id']}: {', '.join(parts)}"
    if shipped is not baseline:
        beside = "faster than" if shown_faster(best, shipped) else "not shown to be faster than"
        text += f"; {beside} what would be shipped today ({shipped['id']}, {shipped['label']})"
    return {**_say(best["id"], text), "gained": True, "better_than_given": True}


def _changes(point: Point, quality: str) -> list[str]:
    names = [n for n in ("size", "accuracy", "agreement", "peak_memory") if n in point["changes"]]
    found = {name: f"{name.replace('_', ' ')} {point['changes'][name]}" for name in names}
    if point["flips"] and quality in found:
        found[quality] += f" ({point['flips']['text']})"
    return list(found.values())


def _no_gain(points: Sequence[Point], baseline: Point, shipped: Point) -> dict[str, Any]:
    members = [p for p in points if p["standing"] == "front"]
    if shipped is not baseline and _feasible(shipped):
        text = (
            f"take {shipped['id']} ({shipped['label']}), what would be shipped today: "
            f"{shipped['ratio']['text']} than the given model; the search found nothing better"
            f"{_smaller_but(members, shipped)}"
        )
        return {**_say(shipped["id"], text), "better_than_given": True}
    if _feasible(baseline):
        text = f"{_tried(points, baseline)}: ship the given model as it is"
        return _say(baseline["id"], text + _smaller_but(members, baseline))
    if members:
        first = members[0]
        text = f"take {first['id']}: it keeps the bounds, which the given model does not"
        ours = first["role"] == "search"
        return {**_say(first["id"], text), "gained": ours, "better_than_given": True}
    return _say(None, "no candidate keeps every bound")


def _tried(points: Sequence[Point], baseline: Point) -> str:
    """That nothing was gained can be said only where something was measured beside it."""
    others = [p for p in points if p is not baseline]
    if any(p["standing"] != "invalid" for p in others):
        return "nothing was gained"
    if not others:
        return "nothing else was tried yet"
    return f"nothing is known yet: no valid measurement of {count(len(others), 'other')}"


def _smaller_but(members: Sequence[Point], other: Point) -> str:
    """The smallest member, where its speed is what speaks against it."""
    found = _best([p for p in members if p["role"] == "search"], "size")
    limit = SMALLER * (amount(other, "size") or 0.0)
    if found is None or (amount(found, "size") or 0.0) > limit:
        return ""
    return f" ({found['id']} is smaller, size {found['changes']['size']}, but {_speed(found)})"


def _speed(point: Point) -> str:
    return f"in speed {point['ratio']['text']}" if point["ratio"] else "its speed is unknown"


def _say(take: str | None, text: str) -> dict[str, Any]:
    return {"take": take, "gained": False, "better_than_given": False, "text": text}
