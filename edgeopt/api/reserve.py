"""How much of a search's time is kept for measuring its front again."""

from collections.abc import Sequence
from statistics import median

from edgeopt.core.trial import Trial
from edgeopt.measure.plan import FINAL, NORMAL, QUICK

LEAST, MOST = 0.12, 0.4
"""Shares of the budget."""
_MARGIN = 1.25
_PARTS = 3.0
"""Scoring everything (test part, probes) takes about so many times what the search part takes."""
_ENOUGH = 5
"""Measured candidates before their pace is believed."""
_TAKEN = 5
"""Members of a front that a reader may take for their speed."""


def reserved_s(
    open_: Sequence[Trial], measured: Sequence[Trial], baseline_s: float | None, budget_s: float
) -> float:
    """Seconds that confirming a front should take, one newcomer included.

    Time is kept for the fastest few that are faster than the given model. A front also holds what
    is smaller and slower; that is confirmed with what is left, and the search gets the rest: on a
    real model five of six confirmations went to such members.

    How much longer than planned the quick rung has really taken here says how much longer the
    final one will take; host seconds of candidates say what scoring takes. While few are known,
    the given model says both, which was timed and scored as thoroughly as a member will be.

    Args:
        open_: Members of the front that were not yet measured under the stronger protocol.
        measured: Trials of the device, the baseline's among them.
        baseline_s: The baseline's latency.
        budget_s: Of the whole search.
    """
    if baseline_s is None:
        return MOST * budget_s
    planned = _planned_s(sorted(_faster(open_, baseline_s))[:_TAKEN], measured, baseline_s)
    if planned is None:
        return MOST * budget_s
    return min(max(_MARGIN * planned, LEAST * budget_s), MOST * budget_s)


def _planned_s(
    latencies: Sequence[float], measured: Sequence[Trial], baseline_s: float
) -> float | None:
    """Seconds for members of such latencies and a newcomer; None where nothing is known."""
    timed = [(t, _latency_s(t)) for t in measured if t.protocol == QUICK.name and t.device_s > 0]
    known = [(trial, value) for trial, value in timed if value is not None]
    if len(known) < _ENOUGH:
        given = [t for t in measured if t.candidate.is_baseline and t.protocol == NORMAL.name]
        if not given:
            return None
        longer = FINAL.estimate_s(baseline_s, baseline_s) / NORMAL.estimate_s(
            baseline_s, baseline_s
        )
        return (len(latencies) + 1) * (longer * given[-1].device_s + given[-1].host_s)
    pace = median(t.device_s / QUICK.estimate_s(value, baseline_s) for t, value in known)
    scoring_s = _PARTS * median(t.host_s for t, _ in known)
    every = [*latencies, median(latencies or [baseline_s])]
    return sum(pace * FINAL.estimate_s(each, baseline_s) + scoring_s for each in every)


def _faster(trials: Sequence[Trial], baseline_s: float) -> list[float]:
    """Latencies of those that are faster than the given model."""
    found = [_latency_s(trial) for trial in trials]
    return [value for value in found if value is not None and value < baseline_s]


def _latency_s(trial: Trial) -> float | None:
    found = trial.value("latency")
    return None if found is None else found.value
