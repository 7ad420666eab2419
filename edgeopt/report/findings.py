"""What else an honest report says: tried in vain, not known, checked, failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgeopt.core.front import Front
from edgeopt.core.measurement import Failure
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.report import words
from edgeopt.report.points import Point, identity
from edgeopt.units import format_seconds

PERCENTILE_SAMPLES = {"p90": 64, "p99": 662}
"""Samples below which a percentile has no defensible bound at 99 % confidence: the early-stopping
rule of MLPerf Inference (loadgen), with one sample allowed beyond the bound."""
EXAMPLES = 3
INVALID = "invalid measurement"


class Known(Protocol):
    """The part of `ReportContext` that is read here."""

    @property
    def decidable_drop(self) -> float | None:
        """Smallest accuracy drop that can be decided."""
        ...

    @property
    def samples(self) -> Mapping[str, int]:
        """Part of the data to its number of samples."""
        ...


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known about one device.

    Args:
        members: Points of the front.
        points: All points.
        baseline: The given model.
        shipped: What would be shipped today.
        quality: Name of the accuracy metric; empty without data.
        front: The front itself.
    """

    members: Sequence[Point]
    points: Sequence[Point]
    baseline: Point | None
    shipped: Point | None
    quality: str
    front: Front


def failures(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Failed trials by stage, the most frequent first, but what tells most before what tells least.

    A candidate that only a shift refused tells a user most. Invalid measurements are one more
    stage, the last: they say something about the machine, not about the candidate.
    """
    found: dict[str, list[dict[str, str]]] = {}
    for trial in trials:
        outcome = trial.outcome
        if isinstance(outcome, Failure):
            stage, reason = outcome.stage, outcome.reason
        elif outcome.verdict.status == "invalid":
            stage, reason = INVALID, "; ".join(outcome.verdict.reasons)
        else:
            continue
        found.setdefault(stage, []).append(
            {"id": identity(trial), "device": trial.device, "label": trial.label, "reason": reason}
        )
    rank = {"shift": 0, INVALID: 2}
    ordered = sorted(found.items(), key=lambda i: (rank.get(i[0], 1), -len(i[1]), i[0]))
    return [
        {"stage": stage, "count": len(each), "examples": each[:EXAMPLES]} for stage, each in ordered
    ]


def in_vain(evidence: Evidence, trials: Sequence[Trial], device: str) -> list[str]:
    """The usual ways that did not help, and strategies that have nothing on the front."""
    found: list[str] = []
    for each in evidence.points:
        shipped = evidence.shipped is not None and each["id"] == evidence.shipped["id"]
        if each["role"] == "peer" and not shipped:
            why = _why_not(each)
            found += [f"{each['label']} ({each['id']}): {why}"] if why else []
    used: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.device == device:
            used.setdefault(trial.strategy, []).append(trial)
    keys = {trial.candidate.key for trial in evidence.front.members}
    for strategy, mine in sorted(used.items()):
        if not any(trial.candidate.key in keys for trial in mine):
            spent = format_seconds(sum(trial.device_s for trial in mine))
            tried = words.count(len(mine), "trial")
            found.append(f"{strategy}: {tried}, {spent} on the device, none on the front")
    return found


def _why_not(point: Point) -> str:
    if point["failure"]:
        return f"failed in {point['failure']['stage']}: {point['failure']['reason']}"
    if point["standing"] == "invalid":
        return f"no valid measurement: {'; '.join(point['verdict']['reasons'])}"
    if point["standing"] == "infeasible":
        return "; ".join(point["broken_bounds"]) or "a value with a bound is missing"
    if point["ratio"] is not None and point["ratio"]["relation"] != "faster":
        return str(point["ratio"]["text"])
    return "" if point["standing"] in {"front", "equal"} else str(point["standing"])


def unknown(evidence: Evidence, study: Study, known: Known) -> list[str]:
    """What the trials of a device cannot tell."""
    return [
        *_undecided(evidence, study, known),
        *_percentiles(evidence),
        *_absent(evidence),
        *_hidden(evidence),
        *_doubtful(evidence),
    ]


def _undecided(evidence: Evidence, study: Study, known: Known) -> list[str]:
    if not study.data or not evidence.quality:
        return ["accuracy: there is no data, so only exact changes were tried"]
    count = known.samples.get("search")
    where = "the search part" if count is None else f"the {count} samples of the search part"
    if known.decidable_drop is None:
        return [f"which drop of {evidence.quality} {where} can decide was not determined"]
    return [f"drops of {evidence.quality} under {known.decidable_drop * 100:.2f} pt: {where}"
            " cannot decide them"]  # fmt: skip


def _percentiles(evidence: Evidence) -> list[str]:
    counts = [p["metrics"]["latency"]["samples"] for p in evidence.members if _sampled(p)]
    if not counts:
        return []
    fewest = min(counts)
    short = [f"{name} ({n})" for name, n in PERCENTILE_SAMPLES.items() if fewest < n]
    if not short:
        return []
    return [f"latency percentiles {', '.join(short)} need more samples than the {fewest} taken"]


def _sampled(point: Point) -> bool:
    return point["metrics"].get("latency", {}).get("samples") is not None


def _absent(evidence: Evidence) -> list[str]:
    found = dict(evidence.front.dropped)
    for point in [*evidence.members, *([evidence.baseline] if evidence.baseline else [])]:
        for metric, reason in point["absent"].items():
            found.setdefault(metric, reason)
    return [f"{metric}: {reason}" for metric, reason in found.items()]


def _hidden(evidence: Evidence) -> list[str]:
    hidden = [p for p in evidence.members if p["lowered"] and p["lowered"]["asked"]]
    ids = [p["id"] for p in hidden if p["lowered"]["ran"] is None]
    return [f"whether integers ran in {', '.join(ids)}: the provider does not show it"] * bool(ids)


def _doubtful(evidence: Evidence) -> list[str]:
    suspect = [p for p in evidence.members if p["verdict"]["status"] == "suspect"]
    found = [f"{p['id']} is suspect: {'; '.join(p['verdict']['reasons'])}" for p in suspect]
    missed = [f"{p['id']} {note}" for p in evidence.members for note in p["notes"]]
    tied = [(p["id"], other) for p in evidence.members for other in p["ties"]]
    pairs = [f"{a} and {b}" for a, b in tied if _number(a) < _number(b)]
    if pairs:
        found.append(f"which is faster of {', '.join(pairs)}: their intervals overlap")
    return [*missed, *found]


def _number(name: str) -> int:
    return int(name.removeprefix("c"))


def checked(evidence: Evidence, samples: Mapping[str, int], notes: Sequence[str] = ()) -> list[str]:
    """What stands behind the numbers of a device's front.

    Args:
        evidence: Of the device.
        samples: Part of the data to its number of samples.
        notes: How the given model's accuracy came about there.
    """
    found: list[str] = []
    rounds = [p["ratio"]["fresh_rounds"] for p in evidence.members if p["ratio"]]
    if rounds:
        processes = "1 process" if min(rounds) == 1 else f"at least {min(rounds)} fresh processes"
        found.append(f"latency beside the given model's in alternating blocks, {processes} each")
    if evidence.quality and samples.get("search"):
        test = samples.get("test", 0)
        beside = f", {test} more held out and shown beside" if test else ""
        found.append(f"{evidence.quality} on {samples['search']} samples{beside}")
    told = [note for note in notes if note and not note.endswith("host outputs")]
    found += [f"{evidence.quality} of the given model: {note}" for note in told]
    read = [p for p in evidence.members if p["lowered"] is not None]
    if read:
        found.append(f"what the runtime built was read back for {len(read)} of the front")
    return found


def nearest(points: Sequence[Point]) -> list[str]:
    """Where nothing is feasible: the measured candidates with the fewest broken bounds."""
    measured = [p for p in points if p["standing"] == "infeasible"]
    measured.sort(key=lambda p: (len(p["broken_bounds"]), _number(p["id"])))
    return [f"{p['id']}: {'; '.join(p['broken_bounds'])}" for p in measured[:EXAMPLES]]
