"""What is wrong with the readings of a power sensor: stale, negative, missing, drifting."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from edgeopt.core.samples import Floats
from edgeopt.measure import power

_ACCIDENT, _LEAST_REPEAT = 1e-6, 20
_MISSING_SUSPECT, _MISSING_FATAL = 0.05, 0.5
_NEGATIVE_SHARE = 0.01
_DRIFT_SHARE, _DRIFT_STEPS = 0.03, 2.0


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that speaks against an energy: `fatal` ones leave no value."""

    reason: str
    fatal: bool = False


def flaws(found: power.Readings, reply: Mapping[str, Any]) -> list[Flaw]:
    """Everything that is wrong; a fatal flaw that makes the rest meaningless comes alone."""
    windows = [(float(b["busy"][0]), float(b["busy"][1])) for b in reply["blocks"]]
    events = reply["samples"].get("events", ())
    worst = max((power.missing(found, window) for window in windows), default=1.0)
    if len(found.times) < 2 or worst > _MISSING_FATAL:
        return [Flaw(f"missing: {worst:.0%} of a window has no reading{_last(events)}", True)]
    return [
        *_missing(worst, found, events),
        *_renumbered(events),
        *_stale(found, windows),
        *_negative(found, windows),
        *_drift(found, reply),
        *_counter(found),
        *_throttled(reply),
    ]


def _last(events: Any) -> str:
    texts = [str(event["text"]) for event in events if event["kind"] != "renumbered"]
    return f" ({texts[-1]})" if texts else ""


def _missing(worst: float, found: power.Readings, events: Any) -> list[Flaw]:
    if worst > _MISSING_SUSPECT:
        return [Flaw(f"missing: {worst:.0%} of a window has no reading{_last(events)}")]
    if len(found.lost):
        return [Flaw(f"missing: {len(found.lost)} readings failed{_last(events)}")]
    return []


def _renumbered(events: Any) -> list[Flaw]:
    times = sum(event["kind"] == "renumbered" for event in events)
    if not times:
        return []
    return [Flaw(f"renumbered: the rails moved {times} times and were found again by label")]


def _stale(found: power.Readings, windows: list[power.Window]) -> list[Flaw]:
    """A source that does not change is no measurement.

    A counter must grow, and readings must not be the same idle and busy. A steady load within
    one step of the sensor repeats itself too, so that a long repeat in a window only counts where
    the readings of this load usually change so often that it is no accident.
    """
    if found.counted is not None:
        if all(power.joules(found, window) <= 0 for window in windows):
            return [Flaw("stale: the counter does not move", True)]
        return []
    if float(np.ptp(found.total)) == 0:
        return [Flaw("stale: every reading is the same, idle or not", True)]
    seen = [found.total[found.within(window)] for window in windows]
    usual = max((_changing(each) for each in seen), default=0.0)
    longest = max(_longest_repeat(each) for each in seen)
    if (1 - usual) ** longest < _ACCIDENT and longest >= _LEAST_REPEAT:
        return [Flaw(f"stale: {longest} readings in a row are the same", True)]
    return []


def _changing(values: Floats) -> float:
    """Share of readings that differ from the one before."""
    return np.count_nonzero(np.diff(values)) / max(1, len(values) - 1)


def _longest_repeat(values: Floats) -> int:
    """How many readings in a row are the same at most."""
    longest = run = 1
    for before, after in pairwise(values.tolist()):
        run = run + 1 if before == after else 1
        longest = max(longest, run)
    return longest


def _negative(found: power.Readings, windows: list[power.Window]) -> list[Flaw]:
    """One step below zero is noise of an idle rail; more, or often, is a wrong sign or shunt."""
    count, seen = 0, 0
    for window in windows:
        inside = found.within(window)
        for label, watts in found.watts.items():
            count += int((watts[inside] < -1.5 * (found.step_w[label] or 0.0)).sum())
            seen += int(inside.sum())
        if power.joules(found, window) <= 0 and found.counted is None:
            return [Flaw("negative: the mean power of a window is not above zero", True)]
    if count > _NEGATIVE_SHARE * seen:
        return [Flaw(f"negative: {count} of {seen} readings are below zero")]
    return []


def _drift(found: power.Readings, reply: Mapping[str, Any]) -> list[Flaw]:
    """Idle power before and after a window must agree, or it is unknown what to subtract."""
    steps = sum(step or 0.0 for step in found.step_w.values())
    if found.counted is not None:
        steps = 0.0
    for block in reply["blocks"]:
        before, after = (
            power.mean_w(found, (float(block[key][0]), float(block[key][1])))
            for key in ("idle_before", "idle_after")
        )
        if abs(after - before) > max(_DRIFT_SHARE * abs(before), _DRIFT_STEPS * steps):
            return [Flaw(f"idle_drift: {before:.3g} W before and {after:.3g} W after a window")]
    return []


def _counter(found: power.Readings) -> list[Flaw]:
    if not found.resets:
        return []
    return [Flaw("counter_reset: the energy counter fell without a known range", True)]


def _throttled(reply: Mapping[str, Any]) -> list[Flaw]:
    risen: set[str] = set()
    for block in reply["blocks"]:
        state: Mapping[str, Any] = block.get("state") or {}
        counters: Mapping[str, int] = state.get("throttle") or {}
        risen.update(counters)
    return [Flaw("throttled: " + ", ".join(sorted(risen)))] if risen else []
