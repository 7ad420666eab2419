"""How much of a search's time is kept for measuring its front again."""

from collections.abc import Sequence
from statistics import median

from edgeopt.core.trial import Trial
from edgeopt.measure.plan import FINAL, QUICK

LEAST, MOST = 0.12, 0.4
"""Shares of the budget."""
_MARGIN = 1.25
_PARTS = 3.0
"""Scoring everything (test part, probes) takes about so many times what the search part takes."""
_ENOUGH = 5
"""Measured candidates before the plan is believed."""


def reserved_s(
    open_: Sequence[Trial], measured: Sequence[Trial], baseline_s: float | None, budget_s: float
) -> float:
    """Seconds that confirming a front should take, one newcomer included.

    How much longer than planned the quick rung has really taken here says how much longer the
    final one will take; host seconds of candidates say what scoring takes.

    Args:
        open_: Members of the front that were not yet measured under the stronger protocol.
        measured: Trials of the quick rung with a latency.
        baseline_s: The baseline's latency.
        budget_s: Of the whole search.
    """
    timed = [(t, _latency_s(t)) for t in measured if t.protocol == QUICK.name and t.device_s > 0]
    known = [(trial, value) for trial, value in timed if value is not None]
    if baseline_s is None or len(known) < _ENOUGH:
        return MOST * budget_s
    pace = median(t.device_s / QUICK.estimate_s(value, baseline_s) for t, value in known)
    scoring_s = _PARTS * median(t.host_s for t, _ in known)
    latencies = [value for trial in open_ if (value := _latency_s(trial)) is not None]
    latencies.append(median(latencies or [baseline_s]))
    planned = sum(pace * FINAL.estimate_s(each, baseline_s) + scoring_s for each in latencies)
    return min(max(_MARGIN * planned, LEAST * budget_s), MOST * budget_s)


def _latency_s(trial: Trial) -> float | None:
    found = trial.value("latency")
    return None if found is None else found.value
