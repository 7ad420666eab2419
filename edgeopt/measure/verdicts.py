"""Whether a measurement holds: valid, suspect or invalid, each with its reasons.

Every check looks at raw facts of the run, never at the result that it would like to see. Each
returns one verdict; together the worst counts and all reasons are kept.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Status, Verdict
from edgeopt.core.samples import TIE
from edgeopt.measure.metrics import samples
from edgeopt.measure.plan import Protocol
from edgeopt.measure.raw import RawRun, Side
from edgeopt.measure.statistics import drift, settled

CPU = "CPUExecutionProvider"
DRIFT_SUSPECT, DRIFT_INVALID = 0.03, 0.10
STARVED_SUSPECT, STARVED_INVALID = 0.85, 0.25
# Half starved is suspect, not invalid: both sides of a pair starve alike, and what does not cancel
# widens the interval by itself. Below a quarter there are too few undisturbed runs in a block.
HEAT_C = 10.0
CLOCK = 0.05
SWAPPED_PAGES = 256
SIDES: tuple[Side, ...] = ("candidate", "baseline")


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


def disturbed(bench: Mapping[str, Any], settings: Mapping[Side, RuntimeSettings]) -> bool:
    """Whether a round is worth repeating: drift or starvation beyond the limit of invalid."""
    return abs(drift_of(bench)) > DRIFT_INVALID or share_of([bench], settings) < STARVED_INVALID


def share_of(
    rounds: Sequence[Mapping[str, Any]], settings: Mapping[Side, RuntimeSettings]
) -> float:
    """Which share of the processor time that it needed the worse side got.

    Spinning threads use theirs all the time; without spinning only the calling thread must. The
    median over blocks, so that one interruption does not condemn a run. 1 on other providers.
    """
    shares: list[float] = []
    for side in SIDES:
        wanted = settings[side]
        if wanted.provider != CPU:
            continue
        threads = min(float(wanted.threads), float(rounds[0]["processors"]))
        need = max(1.0, 0.8 * threads) if wanted.spinning else 1.0
        blocks = [block for each in rounds for block in each[side]["blocks"]]
        shares.append(float(np.median([b["cpu_s"] / b["wall_s"] / need for b in blocks])))
    return min(shares, default=1.0)


def fed(raw: RawRun, settings: Mapping[Side, RuntimeSettings]) -> Verdict:
    """Processor time against wall time: a run on the CPU provider must have got its processors."""
    share = share_of(raw.rounds, settings)
    if share >= STARVED_SUSPECT:
        return Verdict()
    status: Status = "invalid" if share < STARVED_INVALID else "suspect"
    return _verdict(status, f"starved: the runs got {share:.0%} of the processor time they needed")


def quiet(raw: RawRun, settings: Mapping[Side, RuntimeSettings]) -> Verdict:
    """Others must leave as many processors as the run needs; median over blocks."""
    processors = float(raw.rounds[0]["processors"])
    threads = min(float(max(each.threads for each in settings.values())), processors)
    others = [
        (block["busy_s"] - block["cpu_s"]) / block["wall_s"]
        for block in raw.all_blocks()
        if block["busy_s"] is not None
    ]
    if not others or float(np.median(others)) <= processors - 0.9 * threads:
        return Verdict()
    return _verdict(
        "suspect",
        f"busy: other work kept {float(np.median(others)):.1f} of {processors:g} processors",
    )


def in_memory(raw: RawRun) -> Verdict:
    """Nothing may be swapped while blocks are timed."""
    pages = sum(block["swapped_pages"] or 0 for block in raw.all_blocks())
    if pages < SWAPPED_PAGES:
        return Verdict()
    return _verdict("invalid", f"swap: {pages} pages were swapped during the blocks")


def cool(raw: RawRun) -> Verdict:
    """Heat and clocks within a process, where the machine tells them."""
    verdict = Verdict()
    for each in raw.rounds:
        blocks = [block for side in SIDES for block in each[side]["blocks"]]
        heat = _known(blocks, "temperature_c")
        clocks = _known(blocks, "clock_hz")
        if heat and max(heat) - min(heat) > HEAT_C:
            verdict &= _verdict("suspect", f"heat: {min(heat):.0f} to {max(heat):.0f} °C")
        if clocks and min(clocks) < (1 - CLOCK) * max(clocks):
            text = f"clock: {min(clocks) / 1e6:.0f} to {max(clocks) / 1e6:.0f} MHz"
            verdict &= _verdict("suspect", text)
    return verdict


def _known(blocks: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [float(block[key]) for block in blocks if block[key] is not None]


def placed(raw: RawRun, settings: RuntimeSettings) -> Verdict:
    """Nodes must run on the provider that was asked for."""
    nodes = raw.nodes
    elsewhere = [node for node in nodes if node["provider"] != settings.provider]
    if not elsewhere:
        return Verdict()
    total = sum(node["time_s"] for node in nodes) or 1.0
    share = sum(node["time_s"] for node in elsewhere) / total
    kinds = ", ".join(sorted({str(node["op"]) for node in elsewhere})[:5])
    status: Status = "invalid" if len(elsewhere) == len(nodes) else "suspect"
    return _verdict(
        status,
        f"fallback: {len(elsewhere)} of {len(nodes)} nodes ({share:.0%} of the time; {kinds}) "
        f"ran outside of {settings.provider}",
    )


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
) -> Verdict:
    """The verdict of a run: the worst of all checks, with every reason."""
    checks: tuple[Callable[[], Verdict], ...] = (
        lambda: warmed_up(raw, protocol),
        lambda: enough_blocks(raw),
        lambda: steady(raw),
        lambda: fed(raw, settings),
        lambda: quiet(raw, settings),
        lambda: in_memory(raw),
        lambda: cool(raw),
        lambda: placed(raw, settings["candidate"]),
        lambda: same(raw, identical),
    )
    verdict = Verdict()
    for check in checks:
        verdict &= check()
    return verdict
