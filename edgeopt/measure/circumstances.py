"""What the machine did during a run, judged: heat, clocks, throttling, memory, other work.

Each check looks at raw facts and returns one verdict. What a machine does not tell accuses nobody.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Status, Verdict
from edgeopt.measure.raw import SIDES, RawRun, Side

CPU = "CPUExecutionProvider"
STARVED_SUSPECT, STARVED_INVALID = 0.85, 0.25
# Half starved is suspect, not invalid: both sides of a pair starve alike, and what does not cancel
# widens the interval by itself. Below a quarter there are too few undisturbed runs in a block.
HEAT_C = 10.0
CLOCK = 0.05
BUSY, GPU_BUSY = 0.05, 0.10
SWAPPED_PAGES = 256


def _verdict(status: Status, *reasons: str) -> Verdict:
    return Verdict(status=status, reasons=reasons)


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
        allowed = float(rounds[0][side].get("processors") or rounds[0]["processors"])
        threads = min(float(wanted.threads), float(rounds[0]["processors"]), allowed)
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
    pages = sum(block["swapped_pages"] or 0 for block in raw.watched_blocks())
    if pages < SWAPPED_PAGES:
        return Verdict()
    return _verdict("invalid", f"swap: {pages} pages were swapped during the blocks")


def cool(raw: RawRun) -> Verdict:
    """Heat within a process, where the machine tells it."""
    verdict = Verdict()
    for each in raw.rounds:
        heat = _known([block for side in SIDES for block in each[side]["blocks"]], "temperature_c")
        if heat and max(heat) - min(heat) > HEAT_C:
            verdict &= _verdict("suspect", f"heat: {min(heat):.0f} to {max(heat):.0f} °C")
    return verdict


def clocked(raw: RawRun) -> Verdict:
    """Clocks of one side within a process: the two may be pinned to unlike processors."""
    spans = [
        (min(found), max(found))
        for each in raw.rounds
        for side in SIDES
        if (found := _known(each[side]["blocks"], "clock_hz"))
    ]
    low, high = min(spans, key=lambda span: span[0] / span[1], default=(1.0, 1.0))
    if low >= (1 - CLOCK) * high:
        return Verdict()
    return _verdict("suspect", f"clock: {low / 1e6:.0f} to {high / 1e6:.0f} MHz")


def throttled(raw: RawRun) -> Verdict:
    """No throttle counter may rise while blocks are timed."""
    risen: dict[str, int] = {}
    for block in raw.watched_blocks():
        counters: Mapping[str, int] = block.get("throttle") or {}
        for name, count in counters.items():
            risen[name] = risen.get(name, 0) + int(count)
    if not risen:
        return Verdict()
    names = ", ".join(f"{name} (+{count})" for name, count in sorted(risen.items()))
    return _verdict("invalid", f"throttled: {names} during the blocks")


def waited(raw: RawRun) -> Verdict:
    """Where an idle machine was waited for, it must have come."""
    found = raw.waited
    if found is None or found["idle"]:
        return Verdict()
    shares = (("busy_share", BUSY, "processors"), ("gpu_busy", GPU_BUSY, "GPU"))
    seen = [
        f"{found[key]:.0%} of the {what}"
        for key, limit, what in shares
        if found[key] is not None and found[key] > limit
    ]
    return _verdict(
        "suspect",
        f"busy_before: after {found['waited_s']:.0f} s of waiting other work still took "
        f"{' and '.join(seen)}",
    )


def free_gpu(raw: RawRun) -> Verdict:
    """Nobody else may use the GPU when the first job begins."""
    before: Mapping[str, Any] = raw.footprint.get("before") or {}
    busy = before.get("gpu_busy")
    if busy is None or float(busy) <= GPU_BUSY:
        return Verdict()
    return _verdict("suspect", f"gpu_busy: {float(busy):.0%} in use before the first job")


def cooled(raw: RawRun) -> Verdict:
    """A wait for a cool machine that ended warm is said; `heat` judges what it did."""
    warm = [each for each in raw.cooled if not each["idle"]]
    if not warm:
        return Verdict()
    reply = max(warm, key=lambda each: float(each["temperature_c"]))
    return Verdict(
        reasons=(
            f"warm: still {reply['temperature_c']:.0f} °C after {reply['waited_s']:.0f} s of rest",
        )
    )


def together(raw: RawRun) -> Verdict:
    """Sessions that were opened in turn are said: their blocks lie further apart in time."""
    if all(each.get("together", True) for each in raw.rounds):
        return Verdict()
    return Verdict(
        reasons=("memory: too little for both sessions at once, so they were opened in turn",)
    )


def _known(blocks: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [float(block[key]) for block in blocks if block[key] is not None]
