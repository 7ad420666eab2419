"""How well each shown trial was measured: runs, spread, drift, repeated rounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgeopt.core.samples import Samples
from edgeopt.core.trial import Trial
from edgeopt.report.points import Point, identity
from edgeopt.report.words import count, rounded

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def quality(trials: Sequence[Trial], points: Sequence[Point]) -> list[dict[str, Any]]:
    """What stands behind the latency of the front, the given model and the usual ways.

    Args:
        trials: One a candidate.
        points: Of the same trials, in the order in which they are shown.
    """
    by_id = {identity(trial): trial for trial in trials}
    shown = [p for p in points if p["standing"] == "front" or p["role"] in {"baseline", "peer"}]
    found = ((by_id[p["id"]], p) for p in shown if p["id"] in by_id)
    return [
        _measured(trial, value.samples, point)
        for trial, point in found
        if (value := trial.value("latency")) is not None and value.samples is not None
    ]


def _measured(trial: Trial, samples: Samples, point: Point) -> dict[str, Any]:
    found = trial.measurement
    repeated = "0" if found is None else found.environment.get("repeated", "0")
    mine, beside = _medians(samples.blocks), _medians(samples.baseline)
    told: dict[str, Any] = {
        "id": point["id"],
        "runs": samples.count,
        "blocks": len(samples.blocks),
        "processes": samples.fresh_rounds,
        "repeated": int(repeated),
        "warmup": max(samples.warmup, default=0),
        "shares": [rounded(samples.quantile(share), 4) for share in _SHARES],
        "drift": _drift(mine, samples.rounds),
        "drift_beside": _drift(beside, samples.rounds),
        "block_medians": mine,
        "beside_medians": beside,
        "status": point["verdict"]["status"],
        "reasons": list(point["verdict"]["reasons"]),
    }
    return {**told, "text": _text(told)}


def _medians(blocks: Sequence[Sequence[float]]) -> list[float]:
    return [rounded(float(np.median(block)), 4) for block in blocks]


def _drift(medians: Sequence[float], rounds: Sequence[int]) -> float | None:
    """The later half of a process's blocks over its earlier half less 1, in the worst process."""
    numbers = rounds or (0,) * len(medians)
    found: list[float] = []
    for number in dict.fromkeys(numbers):
        mine = [m for m, other in zip(medians, numbers, strict=False) if other == number]
        half = len(mine) // 2
        if half:
            found.append(float(np.median(mine[-half:]) / np.median(mine[:half]) - 1))
    return rounded(max(found, key=abs), 3) if found else None


def _text(found: dict[str, Any]) -> str:
    low, middle, high = found["shares"][1:4]
    processes = "1 process" if found["processes"] == 1 else f"{found['processes']} fresh processes"
    words = [
        f"{count(found['runs'], 'run')} in {count(found['blocks'], 'block')} of {processes}",
        f"the middle half within {100 * (high - low) / middle:.1f} %",
    ]
    if found["drift_beside"] is not None:
        drift = f"{100 * found['drift_beside']:+.1f}".replace("-", "−")
        words.append(f"the given model beside it drifted by {drift} %")
    if found["repeated"]:
        words.append(f"{count(found['repeated'], 'disturbed round')} thrown away and run again")
    return "; ".join(words)
