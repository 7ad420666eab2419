"""The section on several devices: ranks, regret, and one model for all. See `core.across`."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.core import across
from edgeopt.core.trial import Trial
from edgeopt.report.points import Point, identity, summary
from edgeopt.report.words import count, number

EXAMPLES = 5
RANKED = 30


def section(
    trials: Sequence[Trial],
    devices: Sequence[str],
    bounds: across.Bounds,
    picks: Mapping[str, Trial | None],
    points: Mapping[str, Sequence[Point]],
    emulated: Sequence[str] = (),
) -> dict[str, Any] | None:
    """What the fronts say together; None for a single device.

    Args:
        trials: All of the study.
        devices: Of the study, in its order.
        bounds: Device to objectives.
        picks: Device to the trial to take there.
        points: Device to its points.
        emulated: Devices whose time is not that of a board.
    """
    if len(devices) < 2:
        return None
    found = across.models(trials, devices, bounds)
    correlations = across.correlations(found, devices)
    regrets = across.regrets(found, picks, devices)
    robust = across.robust(found, picks, devices)
    by_recipe = {model.recipe: model for model in found}
    made: dict[str, Any] = {
        "devices": list(devices),
        "emulated": list(emulated),
        "correlations": [_correlation(each) for each in correlations],
        "regret": [_regret(each, picks, by_recipe) for each in regrets],
        "ranks": _ranks(found, devices, points),
        "robust": _robust(robust, devices),
        "numerics": _numerics(points),
    }
    return {**made, "text": _sentences(made, picks)}


def share_text(value: float, low: float | None, high: float | None) -> str:
    """`+12 % [8, 17]`: latency above another's."""
    text = f"{_signed(value)} %"
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return text
    return f"{text} [{100 * low:.0f}, {100 * high:.0f}]".replace("-", "−")


def _signed(value: float) -> str:
    rounded = round(100 * value)
    return f"{'−' if rounded < 0 else '+' if rounded > 0 else '±'}{abs(rounded)}"


def _correlation(found: across.Correlation) -> dict[str, Any]:
    a, b = found.devices
    said = found.reason if found.value is None else f"{found.value:.2f}".replace("-", "−")
    return {
        "devices": [a, b],
        "value": None if found.value is None else number(found.value),
        "count": found.count,
        "reason": found.reason,
        "text": f"{a} and {b}: {said} ({count(found.count, 'model')})",
    }


def _priced(found: across.Regret, own: str) -> dict[str, Any]:
    low = None if found.interval is None else number(found.interval.low)
    high = None if found.interval is None else number(found.interval.high)
    if found.value is None:
        text = found.reason
    elif found.value == 0 and found.interval is None:
        text = own
    else:
        text = share_text(found.value, low, high)
    return {"value": found.value, "low": low, "high": high, "reason": found.reason, "text": text}


def _regret(
    found: across.Regret,
    picks: Mapping[str, Trial | None],
    by_recipe: Mapping[str, across.Model],
) -> dict[str, Any]:
    pick = picks.get(found.pick_of)
    model = None if pick is None else by_recipe.get(pick.candidate.recipe.digest)
    used = None if model is None else model.measured.get(found.used_on)
    own = "own pick" if found.pick_of == found.used_on else "the same model"
    return {
        "pick_of": found.pick_of,
        "used_on": found.used_on,
        "pick": None if pick is None else identity(pick),
        "id": None if used is None else identity(used),
        **_priced(found, own),
    }


def _names(model: across.Model) -> dict[str, Any]:
    trial = model.trial
    label = next((t.label for t in model.measured.values() if t.label), "")
    return {
        "recipe_digest": model.recipe,
        "label": label,
        "summary": "" if trial is None else summary(trial),
        "ids": {device: identity(each) for device, each in model.measured.items()},
    }


def _robust(found: across.RobustPicks, devices: Sequence[str]) -> dict[str, Any]:
    reasons = [{**_names(model), "reason": reason} for model, reason in found.excluded]
    return {
        "minimax": _one_for_all(found.minimax, devices),
        "mean": _one_for_all(found.mean, devices),
        "considered": found.considered,
        "excluded": len(reasons),
        "examples": reasons[:EXAMPLES],
    }


def _one_for_all(found: across.Robust | None, devices: Sequence[str]) -> dict[str, Any] | None:
    if found is None:
        return None
    names = _names(found.model)
    worst = max(devices, key=lambda device: found.price[device].value or 0.0)
    what = names["label"] or names["summary"]
    ids = ", ".join(f"{names['ids'][device]} on {device}" for device in devices)
    cost = (
        f"at worst {share_text(found.worst, None, None)} (on {worst}), "
        f"{share_text(found.mean, None, None)} in the mean"
    )
    return {
        **names,
        "price": {device: _priced(found.price[device], "own pick") for device in devices},
        "worst": found.worst,
        "mean": found.mean,
        "text": f"{what}: {cost if found.worst else 'costs nothing'} ({ids})",
    }


def _ranks(
    found: Sequence[across.Model], devices: Sequence[str], points: Mapping[str, Sequence[Point]]
) -> list[dict[str, Any]]:
    """Models measured on all devices by their rank on each: 1 is the fastest, ties share one."""
    common = [m for m in found if all(device in m.measured for device in devices)]
    ratios = {d: {p["id"]: p["ratio"]["short"] for p in points[d] if p["ratio"]} for d in devices}
    times = {d: [across.latency_s(model.measured[d]) for model in common] for d in devices}
    ordered = {d: sorted(times[d]) for d in devices}
    rows: list[dict[str, Any]] = []
    for place, model in enumerate(common):
        ranks = {d: 1 + bisect_left(ordered[d], times[d][place]) for d in devices}
        names = _names(model)
        texts = {d: ratios[d].get(names["ids"][d], "") for d in devices}
        broken = {d: list(model.infeasible[d]) for d in devices if d in model.infeasible}
        rows.append({**names, "ranks": ranks, "ratios": texts, "broken": broken})
    return sorted(rows, key=lambda row: (sum(row["ranks"].values()), row["recipe_digest"]))[:RANKED]


def _numerics(points: Mapping[str, Sequence[Point]]) -> list[dict[str, str]]:
    """How outputs on a device differ from the host's, for what is shown of it."""
    return [
        {"device": device, "id": each["id"], "text": each["host_difference"]}
        for device, mine in points.items()
        for each in mine
        if each["host_difference"] and (each["standing"] == "front" or each["role"] != "search")
    ]


def _sentences(made: Mapping[str, Any], picks: Mapping[str, Trial | None]) -> list[str]:
    """The most important first."""
    names = made["emulated"]
    said = f"time on {', '.join(names)} is emulated: prices and ranks there are no board's"
    first = [_one_model(made["robust"], picks), *([said] if names else [])]
    return [*first, *_dearest(made["regret"]), _alike(made)]


def _one_model(robust: Mapping[str, Any], picks: Mapping[str, Trial | None]) -> str:
    best = robust["minimax"]
    if best is not None:
        recipes = {None if t is None else t.candidate.recipe.digest for t in picks.values()}
        same = "; every device's own pick is this model" if len(recipes) == 1 else ""
        return f"one model for all: {best['text']}{same}"
    first = next(iter(robust["examples"]), None)
    why = f"; such as {first['label'] or first['summary']}: {first['reason']}" if first else ""
    return f"no model was measured within the bounds on every device{why}"


def _dearest(regret: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is lost most by taking another device's pick; what could not be told."""
    others = [each for each in regret if each["pick_of"] != each["used_on"]]
    known = [each for each in others if each["value"]]
    worst = max(known, key=lambda each: each["value"], default=None)
    found: list[str] = []
    if worst is not None and worst["value"] > 0:
        found.append(
            f"the pick of {worst['pick_of']} costs {worst['text']} on {worst['used_on']} "
            "against its own pick"
        )
    unknown = [each for each in others if each["value"] is None]
    if unknown:
        first = unknown[0]
        more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        found.append(
            f"not known: the pick of {first['pick_of']} on {first['used_on']} "
            f"({first['text']}){more}"
        )
    return found


def _alike(made: Mapping[str, Any]) -> str:
    return "agreement of latency ranks (1 is the same order): " + "; ".join(
        each["text"] for each in made["correlations"]
    )
