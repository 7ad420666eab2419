"""How the front grew: hypervolume over measurements, strategy by strategy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.core.front import cost_matrix
from edgeopt.core.indicators import hypervolume
from edgeopt.core.objective import Objective
from edgeopt.core.trial import Trial
from edgeopt.report.words import rounded
from edgeopt.units import format_seconds

Costs = npt.NDArray[np.float64]
WORSE = 0.1
"""The reference point is the given model made a tenth worse; of what has a bound, the bound."""
LOST = 0.05
"""Accuracy without a bound: the reference point lies so far below the given model's."""


def progress(
    trials: Sequence[Trial],
    objectives: Sequence[Objective],
    rivals: Mapping[str, Sequence[Trial]] | None = None,
    *,
    name: str = "this run",
) -> dict[str, Any] | None:
    """Share of the volume between ideal and reference point after each measurement.

    The ideal is the best value of each objective that anyone measured. What breaks a bound or
    failed is a measurement that adds nothing. A candidate that is measured again counts with its
    latest values, so a curve may fall.

    Args:
        trials: Of one device, by number.
        objectives: With their bounds there.
        rivals: Other searches of the same question on the device, by name.
        name: Of this search among them.

    Returns:
        The `progress` of the schema; None where the given model was not measured.
    """
    given = next((t for t in trials if t.measurement is not None and t.candidate.is_baseline), None)
    kept = [o for o in objectives if given is not None and o.cost(given) is not None]
    groups = _groups(name, trials, rivals or {})
    if given is None or not kept or not groups:
        return None
    reference = np.array([_reference(o, given) for o in kept])
    everyone = [t for _, _, group in groups for t in group]
    ideal = _ideal(everyone, kept, reference)
    series = [
        {
            "strategy": name,
            "kind": kind,
            "trials": len(group),
            "points": _points(given, group, kept, reference, ideal),
        }
        for name, kind, group in groups
    ]
    return {
        "objectives": [objective.metric for objective in kept],
        "reference": [float(each) for each in reference],
        "ideal": [float(each) for each in ideal],
        "series": series,
        "text": _text(series),
    }


def _groups(
    name: str, trials: Sequence[Trial], rivals: Mapping[str, Sequence[Trial]]
) -> list[tuple[str, str, Sequence[Trial]]]:
    """Name, kind and trials: the whole study, each strategy of it, and other studies."""
    names = dict.fromkeys(trial.strategy for trial in trials)
    found: list[tuple[str, str, Sequence[Trial]]] = [(name, "run", trials)]
    if len(names) > 1:
        found += [(n, "strategy", [t for t in trials if t.strategy == n]) for n in names]
    return [*found, *((other, "rival", theirs) for other, theirs in rivals.items() if theirs)]


def _reference(objective: Objective, given: Trial) -> float:
    if objective.bound is not None:
        return objective.limit
    cost = objective.cost(given) or 0.0
    return cost + LOST if objective.direction == "max" else cost * (1 + WORSE)


def _usable(trials: Iterable[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    return [trial for trial in trials if all(o.feasible(trial) for o in objectives)]


def _ideal(trials: Sequence[Trial], objectives: Sequence[Objective], reference: Costs) -> Costs:
    costs = cost_matrix(_usable(trials, objectives), objectives)
    best = costs.min(axis=0) if len(costs) else reference
    return np.minimum(best, reference)


def _points(
    given: Trial,
    trials: Sequence[Trial],
    objectives: Sequence[Objective],
    reference: Costs,
    ideal: Costs,
) -> list[list[float]]:
    """`[measurements, share, device seconds]` after each trial; the given model is there at 0."""
    room = np.where(reference > ideal, reference - ideal, 1.0)

    def scaled(some: Sequence[Trial]) -> Costs:
        # A value that stands on its bound is allowed and counts: next to the reference, inside.
        return np.minimum((cost_matrix(some, objectives) - ideal) / room, 1 - 1e-6)

    held = {given.candidate.key: scaled(_usable([given], objectives))}
    spent, found = 0.0, list[list[float]]()
    for number, trial in enumerate(trials, 1):
        spent += trial.device_s
        held[trial.candidate.key] = scaled(_usable([trial], objectives))
        share = hypervolume(np.concatenate([*held.values()]), np.ones(len(objectives)))
        found.append([number, rounded(share, 4), round(spent, 1)])
    return found


def _text(series: Sequence[Mapping[str, Any]]) -> str:
    """Whose front was larger when the search with the least device time had spent it."""
    whole = [each for each in series if each["kind"] in {"run", "rival"} and each["points"]]
    if len(whole) < 2:
        return ""
    budget = min(each["points"][-1][2] for each in whole)
    told = [f"{each['strategy']} {_at(each, budget):.3f}" for each in whole]
    return f"hypervolume after {format_seconds(budget)} on the device: {', '.join(told)}"


def _at(series: Mapping[str, Any], budget: float) -> float:
    return next((p[1] for p in reversed(series["points"]) if p[2] <= budget), 0.0)
