"""What trainings brought: the accuracy of a candidate before and behind each.

A candidate that was trained has one beside it that says the same without the training, and mostly
that one was measured: what was trained is what had been found. Of what was trained and then
quantized only the accuracy behind it is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.core.action import Action
from edgeopt.core.trial import Trial
from edgeopt.report.points import Point, identity

Document = Mapping[str, Any]
TRAININGS: Mapping[str, str] = {
    "distil": "trained in float",
    "distil_integers": "trained behind its rounding",
}
_STANDS = {
    "front": "is on the front",
    "dominated": "keeps the bounds and is no better than another",
    "equal": "keeps the bounds and is no better than another",
    "invalid": "had no valid measurement",
}


def trained(document: Document, device: str, trials: Sequence[Trial]) -> list[str]:
    """A sentence for each training of the device's candidates, in the order of their numbers."""
    recipes = {identity(trial): trial.candidate.recipe.actions for trial in trials}
    points: Sequence[Point] = document["candidates"][device]
    by_recipe = {_said(recipes[point["id"]]): point for point in points}
    found: list[str] = []
    for point in points:
        actions = recipes[point["id"]]
        done = [action for action in actions if action.transform in TRAININGS]
        if done:
            before = by_recipe.get(_said(actions, without=done))
            found.append(_sentence(point, before, done[-1]))
    return found


def _said(actions: Sequence[Action], without: Sequence[Action] = ()) -> tuple[str, ...]:
    return tuple(action.bare().text for action in actions if action not in without)


def _sentence(point: Point, before: Point | None, training: Action) -> str:
    name = point["label"] or point["id"]
    price = f"{float(training.get('seconds', 0.0)):.0f} s of one core at most"
    found, start = _quality(point), None if before is None else _quality(before)
    told = f"{name} ({point['id']}) was {TRAININGS[training.transform]}, {price}"
    if found is not None and start is not None and before is not None:
        told += f": {100 * start:.2f} % of {before['id']} became {100 * found:.2f} %"
    elif found is not None:
        told += f": {100 * found:.2f} % behind it"
    return f"{told}; it {_stands(point)}"


def _stands(point: Point) -> str:
    if point["failure"]:
        return f"failed in {point['failure']['stage']}: {point['failure']['reason']}"
    if point["standing"] == "infeasible":
        return f"breaks a bound: {'; '.join(point['broken_bounds'])}"
    return _STANDS.get(point["standing"], "was measured")


def _quality(point: Point) -> float | None:
    found = point["metrics"].get("accuracy") or point["metrics"].get("agreement")
    return None if found is None else found["value"]
