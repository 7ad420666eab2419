"""What pruning brought, cut by cut, or why nothing pruned is on the front.

A cut is one action that takes channels, a branch or a rank out of the model. Its layers are those
that the action changed: what makes the channels, what reads them and what lies between. Times are
those of the runtime's profile, one run of it a model.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.core.action import Action
from edgeopt.core.trial import Trial
from edgeopt.plugins import PRUNE
from edgeopt.report.difference import Side, difference
from edgeopt.report.layers import removed, rows
from edgeopt.report.points import Point, identity
from edgeopt.report.trained import trained
from edgeopt.report.words import count, large
from edgeopt.units import format_seconds

Document = Mapping[str, Any]
Layer = Mapping[str, Any]
GAINED = 0.95
"""Of the time before: what is above is no gain that a profile can show."""
_BLOCK = 8
_MENDING = ("least_squares", "distil")
"""What gets accuracy back after a cut."""
_SMALL = 0.02
"""Of the whole time: nothing to gain there."""
_RANK = ("dominated", "equal", "infeasible", "failed", "invalid")


def pruned(
    document: Document, device: str, trials: Sequence[Trial], *, nothing: str = ""
) -> list[str]:
    """Sentences about one device: its cuts, then its trainings.

    Args:
        document: With candidates, fronts, verdicts and layers.
        device: Of the study.
        trials: All of the study.
        nothing: Why the search was offered no cut; empty where it was.
    """
    cuts = _cuts(document, device, trials, nothing)
    return [*cuts, *trained(document, device, trials)]


def _cuts(document: Document, device: str, trials: Sequence[Trial], nothing: str) -> list[str]:
    recipes = {identity(trial): trial.candidate.recipe.actions for trial in trials}
    cuts = {name: _on(PRUNE.names(), actions) for name, actions in recipes.items()}
    points = [point for point in document["candidates"][device] if cuts[point["id"]]]
    members = [point for point in points if point["standing"] == "front"]
    if not points:
        tried = len(document["candidates"][device]) - 1
        untried = f"none of the {count(tried, 'other candidate')} has a cut" if tried > 0 else ""
        return [f"nothing was pruned: {nothing or untried}"] if nothing or untried else []
    if not members:
        return _none(points, recipes)
    taken = document["verdict"][device]["take"]
    point = next((p for p in members if p["id"] == taken), members[0])
    return [_head(point, cuts[point["id"]], taken), *_gains(document, device, point, cuts)]


def _on(names: Sequence[str], actions: Sequence[Action]) -> list[Action]:
    return [action for action in actions if action.transform in names]


def _none(points: Sequence[Point], recipes: Mapping[str, Sequence[Action]]) -> list[str]:
    """Why none of those that were tried is on the front."""
    counts = Counter(_outcome(point) for point in points)
    mended = Counter(a.transform for p in points for a in _on(_MENDING, recipes[p["id"]]))
    told = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
    repairs = ", ".join(f"{number} by {name}" for name, number in mended.most_common())
    nearest = min(points, key=_distance)
    return [
        f"no pruned model is on the front: of {len(points)} that were tried {told}",
        f"repaired: {repairs}" if repairs else "none of them was repaired",
        f"nearest is {nearest['id']} ({nearest['summary']}): {_against(nearest)}",
    ]


def _outcome(point: Point) -> str:
    if point["failure"]:
        return f"failed in {point['failure']['stage']}"
    if point["standing"] == "infeasible":
        broken = {each.partition(" ")[0] for each in point["broken_bounds"]}
        return f"broke the bound of {' and '.join(sorted(broken)) or 'something not measured'}"
    if point["standing"] == "invalid":
        return "had no valid measurement"
    return "kept the bounds and were no better than another"


def _distance(point: Point) -> tuple[int, int, float]:
    found = point["metrics"].get("accuracy") or point["metrics"].get("agreement")
    quality = 0.0 if found is None else found["value"] or 0.0
    return _RANK.index(point["standing"]), len(point["broken_bounds"]), -quality


def _against(point: Point) -> str:
    if point["failure"]:
        return str(point["failure"]["reason"])
    ratio = "" if point["ratio"] is None else point["ratio"]["text"]
    reasons = [*point["broken_bounds"], *point["verdict"]["reasons"], ratio]
    return "; ".join(reason for reason in reasons if reason) or "nothing was measured"


def _head(point: Point, cuts: Sequence[Action], taken: str | None) -> str:
    ratio = "" if point["ratio"] is None else f": {point['ratio']['text']}, beside the given model"
    whether = "is taken" if point["id"] == taken else "is on the front and not taken"
    head = f"{point['id']} with {count(len(cuts), 'cut')} {whether}{ratio}"
    return f"{head}; times of layers are of one profile each, good for shares"


def _gains(
    document: Document, device: str, point: Point, cuts: Mapping[str, Sequence[Action]]
) -> list[str]:
    """A sentence a cut, what saved most first; a layer between two cuts counts in both."""
    base = document["baseline"][device]
    if base is None:
        return []
    sides = [_side(document, each) for each in (base, point)]
    missing = [each["layers_absent"] for each in (base, point) if each["layers_absent"]]
    if missing or not all(side.rows for side in sides):
        return [f"what each cut gained is not known: {next(iter(missing), 'no layers')}"]
    layers = difference(*sides)["layers"]
    whole = _time([each for each in layers if each["a"]], "a", partly=True) or 0.0
    found: list[tuple[float, str]] = []
    for action in cuts[point["id"]]:
        touched = [each for each in layers if action.bare().text in each["actions"]["b"]]
        found.append(_gain(action, touched, whole))
    told = [text for _, text in sorted(found, key=lambda pair: -pair[0])]
    return [*told, *_beside(document, base, point, whole)]


def _side(document: Document, point: Point) -> Side:
    made = rows(document, point)
    return Side(name=point["id"], what="", rows=made, removed=removed(document, point))


def _gain(action: Action, touched: Sequence[Layer], whole: float) -> tuple[float, str]:
    """Seconds saved, and the sentence."""
    before, after = _time(touched, "a"), _time(touched, "b")
    name = f"{action.transform} at {action.site}"
    if not touched:
        return 0.0, f"{name}: later actions changed its layers again"
    macs = [sum(each[side]["macs"] or 0 for each in touched if each[side]) for side in "ab"]
    widths = [
        f"{a['width']} to {b['width']} channels"
        for a, b in ((each["a"], each["b"]) for each in touched)
        if a and b and a["width"] and b["width"] and a["width"] != b["width"]
    ]
    facts = [*dict.fromkeys(widths), f"multiply-adds {large(macs[0])} → {large(macs[1])}"]
    if before is None or after is None:
        return 0.0, f"{name}: {', '.join(facts)}; its time is not known, the profile has no row"
    text = f"{name}: {', '.join(facts)}, time {format_seconds(before)} → {format_seconds(after)}"
    if after > GAINED * before:
        text += f"; nothing gained: {_reason(touched, macs, before, whole)}"
    return before - after, text


def _time(layers: Sequence[Layer], side: str, *, partly: bool = False) -> float | None:
    """Of the layers that a side has; None where a layer has no time and no layer that it is in."""
    held = [each[side] for each in layers if each[side] is not None]
    unknown = any(each["time_s"] is None and not each["merged"] for each in held if each["macs"])
    times = [each["time_s"] for each in held if each["time_s"] is not None]
    return None if (unknown and not partly) or (held and not times) else sum(times)


def _reason(touched: Sequence[Layer], macs: Sequence[int], before: float, whole: float) -> str:
    """Why layers with fewer channels take as long: by what is known of them."""
    both = [(each["a"], each["b"]) for each in touched if each["a"] and each["b"]]
    for a, b in both:
        if a["width"] and b["width"] and b["width"] % _BLOCK and not a["width"] % _BLOCK:
            return f"{b['width']} channels are no multiple of {_BLOCK}, as the kernels want them"
    for a, b in both:
        if a["ran_operator"] and b["ran_operator"] and a["ran_operator"] != b["ran_operator"]:
            return f"the runtime runs {b['ran_operator']} there, not {a['ran_operator']}"
    if before < _SMALL * whole:
        return f"all of it is {100 * before / whole:.1f} % of the model's time"
    if macs[1] > GAINED * macs[0]:
        return "its multiply-adds hardly fell"
    return "its multiply-adds fell, so they are not what takes its time"


def _beside(document: Document, base: Point, point: Point, whole: float) -> list[str]:
    """What the runtime does between the layers, where a pruned model needs more of it."""
    before, after = (
        sum(each[2] or 0.0 for each in one["layers"]["others"]) for one in (base, point)
    )
    if after - before < _SMALL * whole:
        return []
    strings = document["layers"]["strings"]
    names = {strings[each[0]] for each in point["layers"]["others"] if each[0] is not None}
    return [
        f"between its layers the runtime spends {format_seconds(after)}, {format_seconds(before)} "
        f"in the given model ({', '.join(sorted(names))})"
    ]
