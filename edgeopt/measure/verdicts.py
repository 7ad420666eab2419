"""Whether a measurement holds: valid, suspect or invalid, each with its reasons.

Every check looks at raw facts of the run, never at the result that it would like to see. Each
returns one verdict; together the worst counts and all reasons are kept.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Status, Verdict
from edgeopt.core.samples import TIE
from edgeopt.measure import circumstances as seen
from edgeopt.measure.metrics import samples
from edgeopt.measure.placement import placed
from edgeopt.measure.plan import Protocol
from edgeopt.measure.raw import SIDES, RawRun, Side
from edgeopt.measure.statistics import drift, median_interval, settled

DRIFT_SUSPECT, DRIFT_INVALID = 0.03, 0.10
CANARY, CANARY_ALONE, CANARY_MUCH = 0.03, 0.06, 0.10
_POOLED_ROUNDS = 3


def _verdict(status: Status, *reasons: str) -> Verdict:
    return Verdict(status=status, reasons=reasons)


def warmed_up(raw: RawRun, protocol: Protocol) -> Verdict:
    """Both sides must have settled before their first block."""
    restless = sorted(
        {
            side
            for each in raw.rounds
            for side in SIDES
            if not settled(each[side]["warmup"]["medians_s"], protocol.tolerance)
        }
    )
    if not restless:
        return Verdict()
    return _verdict(
        "suspect",
        f"not_settled: {' and '.join(restless)} still changed by more than "
        f"{protocol.tolerance:.0%} at the end of the warm-up",
    )


def enough_blocks(raw: RawRun) -> Verdict:
    """An interval needs at least two block pairs."""
    count = min(len(raw.blocks("candidate")), len(raw.blocks("baseline")))
    if count >= 2:
        return Verdict()
    return _verdict("suspect", f"too_few_blocks: {count}, an interval needs two")


def drift_of(bench: Mapping[str, Any]) -> float:
    """How far the baseline drifted within one round, as a share."""
    blocks = bench["baseline"]["blocks"]
    return drift([float(np.median(block["times_s"])) for block in blocks])


def steady(raw: RawRun) -> Verdict:
    """The baseline's blocks within a process must not drift: something else changed.

    Pairs are measured side by side, so most of a drift cancels in the ratio: one round above the
    limit makes a run suspect; it is invalid where the median round is far above it.
    """
    drifts = [drift_of(each) for each in raw.rounds]
    worst = max(drifts, key=abs, default=0.0)
    if abs(worst) <= DRIFT_SUSPECT:
        return Verdict()
    status: Status = "invalid" if np.median(np.abs(drifts)) > DRIFT_INVALID else "suspect"
    return _verdict(status, f"drift: the baseline changed by {worst:+.1%} between blocks")


def canary(raw: RawRun, baseline_s: float | None) -> Verdict:
    """The baseline beside this candidate against the session's: is the device still the same?

    More than 3 % is told where three fresh processes show it, the session's time being as uncertain
    as three of them; with fewer only what is above the 6 % that sessions of the same bytes may
    differ by. It does not touch the ratio, which is paired; it says that the device is in another
    state than when the absolute time was taken.
    """
    if baseline_s is None or not raw.rounds:
        return Verdict()
    found = samples(raw)
    change = found.baseline_median / baseline_s - 1
    medians = [
        float(np.median([np.median(b["times_s"]) for b in each["baseline"]["blocks"]]))
        for each in raw.rounds
    ]
    interval = median_interval(medians)
    if interval is None:
        shown = abs(change) > CANARY_ALONE
    else:
        wider = math.sqrt(1 + len(medians) / _POOLED_ROUNDS)
        reach = wider * math.log(interval.high / interval.low) / 2
        shown = abs(math.log(baseline_s / interval.value)) > reach
    if not shown or abs(change) <= CANARY:
        return Verdict()
    much = abs(change) > CANARY_MUCH
    advice = "; the device is in another state: measure the baseline again" if much else ""
    return _verdict(
        "suspect",
        f"canary_drift: the baseline beside it took {change:+.1%} of the session's time; "
        f"the ratio is paired and holds{advice}",
    )


def disturbed(bench: Mapping[str, Any], settings: Mapping[Side, RuntimeSettings]) -> bool:
    """Whether a round is worth repeating: drift or starvation beyond the limit of invalid."""
    starved = seen.share_of([bench], settings) < seen.STARVED_INVALID
    return starved or abs(drift_of(bench)) > DRIFT_INVALID


def same(raw: RawRun, identical: bool) -> Verdict:
    """The same file beside itself must not look like two models."""
    if not identical:
        return Verdict()
    ratio = samples(raw).ratio
    if abs(ratio.value - 1) <= TIE:
        return Verdict()
    return _verdict(
        "suspect", f"unequal: the same file beside itself differs by {ratio.value - 1:+.1%}"
    )


def judge(
    raw: RawRun,
    *,
    protocol: Protocol,
    settings: Mapping[Side, RuntimeSettings],
    identical: bool,
    baseline_s: float | None = None,
) -> Verdict:
    """The verdict of a run: the worst of all checks, with every reason.

    Args:
        baseline_s: Pooled median of the baseline over the session; None where there is none.
    """
    checks: tuple[Callable[[], Verdict], ...] = (
        lambda: warmed_up(raw, protocol),
        lambda: enough_blocks(raw),
        lambda: steady(raw),
        lambda: canary(raw, baseline_s),
        lambda: seen.waited(raw),
        lambda: seen.fed(raw, settings),
        lambda: seen.quiet(raw, settings),
        lambda: seen.free_gpu(raw),
        lambda: seen.in_memory(raw),
        lambda: seen.together(raw),
        lambda: seen.cool(raw),
        lambda: seen.cooled(raw),
        lambda: seen.clocked(raw),
        lambda: seen.throttled(raw),
        lambda: placed(raw, settings["candidate"].provider),
        lambda: same(raw, identical),
    )
    verdict = Verdict()
    for check in checks:
        verdict &= check()
    return verdict
