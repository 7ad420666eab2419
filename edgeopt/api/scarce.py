"""With few samples, what the choice itself is worth: judged on samples that it did not see."""

from collections.abc import Sequence
from pathlib import Path

from edgeopt.api.accuracy import Accuracy
from edgeopt.core.trial import Trial
from edgeopt.data.split import SCARCE, cross_fit
from edgeopt.units import Drop


def cross_fitted(
    accuracy: Accuracy, members: Sequence[tuple[Trial, Path]], allowed: Drop
) -> tuple[str, ...]:
    """One sentence on "the fastest that keeps the bound", cross-fitted; none with enough data.

    The choice is made on each half of the held-out samples and judged on the other, and both
    judgements are pooled, so that every sample counts.

    Args:
        accuracy: Of the study's subject.
        members: Trials of the front with their files, the baseline among them.
        allowed: The bound.
    """
    data = accuracy.data
    held_out = len(data.search) + len(data.test)
    if held_out + len(data.calibration) >= SCARCE or not members:
        return ()
    ordered = sorted(members, key=lambda member: _latency(member[0]))
    scored = [
        (
            accuracy.evidence(path, data.search, trial.model_digest),
            accuracy.evidence(path, data.test, trial.model_digest),
        )
        for trial, path in ordered
    ]
    base = accuracy.baseline(data.search), accuracy.baseline(data.test)
    scored.append(base)

    def fastest(values: Sequence[float]) -> int:
        floor = allowed.floor(values[-1])
        return next(index for index, value in enumerate(values) if value >= floor)

    worth = cross_fit(scored, accuracy.metric, fastest)
    given = cross_fit([base], accuracy.metric, lambda values: 0)
    return (
        f"few samples ({held_out} held out): choosing the fastest within {allowed} is worth "
        f"{100 * worth:.1f} % on samples that the choice did not see; the given model "
        f"{100 * given:.1f} %",
    )


def _latency(trial: Trial) -> float:
    value = trial.value("latency")
    return float("inf") if value is None else value.value
