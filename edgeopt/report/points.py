"""One trial as the document shows it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgeopt.core.action import Action
from edgeopt.core.lowered import Lowered
from edgeopt.core.measurement import Failure, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Interval
from edgeopt.core.trial import Trial
from edgeopt.report import words

Point = dict[str, Any]
HOST_DIFFERENCE = "agreement_with_host"
"""Key of a measurement's environment: how the device's outputs differ from the host's."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a point is shown against.

    Args:
        baseline: Trial of the given model on the device; None where it has none.
        objectives: With their bounds.
        quality: Name of the accuracy metric; empty without data.
        peer_labels: What a user would try without us.
        models: Digest of a built file to its path.
        flips: Trial number to samples (lost, won) against the baseline.
    """

    baseline: Trial | None
    objectives: tuple[Objective, ...]
    quality: str
    peer_labels: tuple[str, ...]
    models: Mapping[str, str]
    flips: Mapping[int, tuple[int, int]]


def identity(trial: Trial) -> str:
    """How a person names the trial: `c12`."""
    return f"c{trial.number}"


def point(trial: Trial, standing: str, setting: Setting) -> Point:
    """A trial as a JSON object.

    Args:
        trial: Measured or failed.
        standing: `front`, `equal`, `dominated`, `infeasible`, `invalid` or `failed`.
        setting: What it is shown against.
    """
    recipe, outcome, found = trial.candidate.recipe, trial.outcome, trial.measurement
    failed = isinstance(outcome, Failure)
    return {
        "id": identity(trial),
        "label": trial.label,
        "role": role(trial, setting),
        "standing": standing,
        "strategy": trial.strategy,
        "protocol": trial.protocol,
        "summary": summary(trial, setting.baseline),
        "actions": len(recipe.actions),
        "recipe": recipe.text.splitlines(),
        "recipe_digest": recipe.digest,
        "runtime": trial.candidate.runtime.text,
        "model": setting.models.get(trial.model_digest),
        "model_digest": trial.model_digest,
        "metrics": {} if found is None else metrics(found.values, found.verdict.status),
        "ratio": _ratio(trial, setting),
        "changes": _changes(trial, setting.baseline),
        "flips": _flips(trial, setting),
        "absent": {} if failed else dict(outcome.absent),
        "verdict": {
            "status": "failed" if failed else outcome.verdict.status,
            "reasons": [] if failed else list(outcome.verdict.reasons),
        },
        "failure": {"stage": outcome.stage, "reason": outcome.reason} if failed else None,
        "lowered": None if failed or outcome.lowered is None else _lowered(outcome.lowered),
        "broken_bounds": _broken_bounds(trial, setting),
        "notes": _missed_on_test(trial, setting),
        "host_difference": "" if found is None else found.environment.get(HOST_DIFFERENCE, ""),
    }


def role(trial: Trial, setting: Setting) -> str:
    """`baseline`, `peer` (what a user would try without us) or `search`."""
    base = setting.baseline
    if base is not None and trial.candidate.key == base.candidate.key:
        return "baseline"
    return "peer" if trial.label in setting.peer_labels else "search"


def summary(trial: Trial, baseline: Trial | None = None) -> str:
    """The recipe in a few words: `fold_batchnorm, static_qdq ×14`; other settings behind it."""
    candidate = trial.candidate
    given = candidate if baseline is None else baseline.candidate
    counts = Counter(_named(action) for action in candidate.recipe.actions)
    words = [name if n == 1 else f"{name} ×{n}" for name, n in counts.items()]
    if candidate.runtime != given.runtime:
        words.append(candidate.runtime.text)
    return ", ".join(words) or "the given file"


def _named(action: Action) -> str:
    """The transform, and the shape where that is what the model takes from then on."""
    shape = dict(action.parameters).get("shape")
    return action.transform if shape is None else f"{action.transform} {action.site}={shape}"


def metrics(values: Mapping[str, Value], status: str) -> dict[str, Any]:
    """Each metric with value, interval, unit, verdict, note and text."""
    return {name: _metric(value, status) for name, value in values.items()}


def _metric(value: Value, status: str) -> dict[str, Any]:
    interval = value.interval
    return {
        "value": words.number(value.value),
        "interval": None if interval is None else _ends(interval),
        "unit": value.unit,
        "samples": None if value.samples is None else value.samples.count,
        "verdict": status,
        "note": value.note,
        "text": words.value_text(value),
    }


def _ends(interval: Interval) -> dict[str, float | None]:
    return {"low": words.number(interval.low), "high": words.number(interval.high)}


def _ratio(trial: Trial, setting: Setting) -> dict[str, Any] | None:
    """Latency over the baseline's, paired; None where no baseline was measured beside."""
    value = trial.value("latency")
    if value is None or value.samples is None or not value.samples.baseline:
        return None
    ratio = value.samples.ratio
    found = {
        "value": ratio.value,
        **_ends(ratio),
        "fresh_rounds": value.samples.fresh_rounds,
    }
    if role(trial, setting) == "baseline":
        return {**found, "relation": "reference", "short": "–", "text": "the reference"}
    said = words.relation(ratio, value.samples.fresh_rounds)
    return {
        **found,
        "relation": said,
        "short": words.ratio_short(ratio, said),
        "text": words.ratio_text(ratio, said),
    }


def _changes(trial: Trial, baseline: Trial | None) -> dict[str, str]:
    """Metric to difference in words; latency is told by the ratio instead."""
    if trial.measurement is None or baseline is None:
        return {}
    found: dict[str, str] = {}
    for name, value in trial.measurement.values.items():
        before = baseline.value(name)
        if before is not None and name != "latency":
            found[name] = words.change_text(value.value, before.value, value.unit)
    return found


def _flips(trial: Trial, setting: Setting) -> dict[str, Any] | None:
    value = trial.value(setting.quality)
    found = setting.flips.get(trial.number) or (None if value is None else value.flips)
    if found is None:
        return None
    lost, won = found
    return {"lost": lost, "won": won, "text": f"{lost} lost, {won} won"}


def _lowered(lowered: Lowered) -> dict[str, Any]:
    ran = "unknown" if lowered.ran is None else str(lowered.ran)
    text = f"{lowered.asked} asked in integers, {ran} ran"
    if not lowered.asked and not lowered.ran:
        text = "nothing asked in integers"
    if lowered.islands:
        text += f", {lowered.islands} float islands"
    text += "".join(f"; {trap}" for trap in lowered.traps[:2])
    return {
        "asked": lowered.asked,
        "ran": lowered.ran,
        "islands": lowered.islands,
        "note": lowered.note,
        "stayed": list(lowered.stayed),
        "between": list(lowered.between),
        "text": f"{text} ({lowered.note})" if lowered.note else text,
    }


def _broken_bounds(trial: Trial, setting: Setting) -> list[str]:
    """Which bounds a measured trial does not keep."""
    found: list[str] = []
    for objective in setting.objectives:
        value = trial.value(objective.metric)
        if objective.bound is None or value is None or objective.feasible(trial):
            continue
        side = "above" if objective.direction == "min" else "below"
        limit = words.quantity(objective.bound, value.unit)
        found.append(
            f"{objective.metric} {words.quantity(value.value, value.unit)} is {side} {limit}"
        )
    return found


def _missed_on_test(trial: Trial, setting: Setting) -> list[str]:
    """The test part never selects; that a selected trial misses the bound there is said."""
    name = f"{setting.quality}_test"
    value = trial.value(name)
    base = setting.baseline
    if value is None or base is None:
        return []
    before, before_test = base.value(setting.quality), base.value(name)
    bounds = [o.bound for o in setting.objectives if o.metric == setting.quality]
    if before is None or before_test is None or not bounds or bounds[0] is None:
        return []
    floor = before_test.value - (before.value - bounds[0])
    if value.value >= floor:
        return []
    return [
        f"misses the allowed drop on the test part: {words.quantity(value.value, value.unit)} "
        f"is below {words.quantity(floor, value.unit)}"
    ]
