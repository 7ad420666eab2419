"""Power readings as a series: integrals over windows, and how wrong they may be.

Pure functions of the raw reply of the agent's `energy`. Uncertainties are standard ones; what is
known only as a bound of ±a counts as a/√3 (a uniform distribution, JCGM 100:2008, 4.3.7).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.core.samples import Floats

Window = tuple[float, float]
Mask = npt.NDArray[np.bool_]
_GAP = 2.5
"""A pause of more than so many sampling periods is a gap."""
_DITHER_LEVELS, _DITHER_CHANGES = 4, 0.1
_MOST_W = 5000.0
"""A counter that fell is a wrap where the power is below this afterwards; otherwise a reset."""


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What one sensor said.

    Args:
        times: Instants on the device's clock [n], rising, in s.
        watts: Power by label [n]; of a counter the mean since the reading before.
        counted: Energy since the first reading [n] in J for a counter; None for power.
        step_w: One step of each label, in W; None where it is not known.
        lost: Instants at which there was no reading.
        period_s: Between two readings as planned.
        lag_s: How old a reading may be.
        gain: Relative error of the scale; None where nobody states it.
        wraps: How often a counter began again.
        resets: How often one fell without a wrap: nothing across it is known.
    """

    times: Floats
    watts: Mapping[str, Floats]
    counted: Floats | None
    step_w: Mapping[str, float | None]
    lost: Floats
    period_s: float
    lag_s: float
    gain: float | None
    wraps: int = 0
    resets: int = 0

    @property
    def total(self) -> Floats:
        """The sum of all labels [n], in W."""
        return np.sum(list(self.watts.values()), axis=0)

    def within(self, window: Window) -> Mask:
        """Which readings fall into a window [n]."""
        return (self.times >= window[0]) & (self.times <= window[1])


def readings(reply: Mapping[str, Any]) -> Readings:
    """The series of a reply; readings that are none are set aside."""
    sensor, raw = reply["sensor"], reply["samples"]
    labels = list(raw["labels"])
    valid = [
        (float(t), row)
        for t, row in zip(raw["t_s"], raw["values"], strict=True)
        if row is not None and None not in row
    ]
    lost = [
        float(t)
        for t, row in zip(raw["t_s"], raw["values"], strict=True)
        if row is None or None in row
    ]
    times = np.array([t for t, _ in valid])
    table = np.array([row for _, row in valid], dtype=np.float64).reshape(len(valid), len(labels))
    period = 1.0 / float(reply["sampling_hz"])
    columns = {label: table[:, column] for column, label in enumerate(labels)}
    steps = {label: _step(columns[label], sensor["resolution"].get(label)) for label in labels}
    counted, wraps, resets = None, 0, 0
    if sensor["kind"] == "counter":
        columns, counted, wraps, resets = _unwrap(times, columns, sensor["ranges_j"])
        steps = {label: None if step is None else step / period for label, step in steps.items()}
    return Readings(
        times=times,
        watts=columns,
        counted=counted,
        step_w=steps,
        lost=np.array(lost),
        period_s=period,
        lag_s=float(sensor.get("lag_s") or 1.0 / float(sensor["max_hz"]))
        + float(sensor.get("clock_error_s") or 0.0)
        # Stamped in the middle of a reading, which may have been taken at its beginning.
        + float(raw.get("read_s") or 0.0) / 2,
        gain=sensor["gain"],
        wraps=wraps,
        resets=resets,
    )


def _step(values: Floats, stated: float | None) -> float | None:
    """The sensor's step: as it states it, else the smallest difference that was seen."""
    if stated is not None:
        return float(stated)
    apart = np.diff(np.unique(values))
    apart = apart[apart > 1e-9]
    return float(apart.min()) if len(apart) else None


def _unwrap(
    times: Floats, columns: Mapping[str, Floats], ranges: Mapping[str, float]
) -> tuple[dict[str, Floats], Floats, int, int]:
    """Counters as mean powers and as one sum that only rises."""
    spans = np.diff(times)
    watts: dict[str, Floats] = {}
    counted, wraps, resets = np.zeros(len(times)), 0, 0
    for label, joules in columns.items():
        grown = np.diff(joules)
        fell = grown < 0
        whole = grown + ranges.get(label, np.inf)
        wrapped = fell & (whole <= _MOST_W * spans)
        wraps, resets = wraps + int(wrapped.sum()), resets + int((fell & ~wrapped).sum())
        grown = np.where(wrapped, whole, np.where(fell, 0.0, grown))
        counted[1:] += np.cumsum(grown)
        power = grown / np.maximum(spans, 1e-9)
        watts[label] = np.concatenate([power[:1], power])
    return watts, counted, wraps, resets


def joules(found: Readings, window: Window) -> float:
    """Energy over a window in J: trapezoid, or the counter's difference; edges interpolated.

    Before the first and after the last reading the nearest one holds.
    """
    start, end = window
    if found.counted is not None:
        # A counter cannot be continued beyond its readings, but its mean power can.
        inner_start, inner_end = max(start, found.times[0]), min(end, found.times[-1])
        if inner_end <= inner_start:
            return float("nan")
        low, high = np.interp([inner_start, inner_end], found.times, found.counted)
        return float(high - low) * (end - start) / float(inner_end - inner_start)
    inner = found.within(window)
    total = found.total
    edges = np.interp([start, end], found.times, total)
    times = np.concatenate([[start], found.times[inner], [end]])
    return float(np.trapezoid(np.concatenate([edges[:1], total[inner], edges[1:]]), times))


def mean_w(found: Readings, window: Window) -> float:
    """Mean power over a window, in W."""
    return joules(found, window) / (window[1] - window[0])


def missing(found: Readings, window: Window) -> float:
    """Share of a window in which no reading says anything: gaps, beyond one period each."""
    inside = found.times[found.within(window)]
    edges = np.concatenate([[window[0]], inside, [window[1]]])
    pauses = np.diff(edges)
    gaps = pauses[pauses > _GAP * found.period_s] - found.period_s
    return float(gaps.sum()) / (window[1] - window[0])


def quantization_w(found: Readings, window: Window) -> float:
    """Standard uncertainty of the mean power from the sensor's steps, in W.

    Where the readings wander over several steps, rounding errors differ from one reading to the
    next and average out: q/√12 over √n, with n the number of changes. Otherwise each rail may be
    off by half a step all the time: bounds of ±q/2 that add up. For a counter see below.
    """
    if found.counted is not None:
        return _stale_edges_w(found, window)
    inside = found.within(window)
    random, bound = 0.0, 0.0
    for label, watts in found.watts.items():
        step, seen = found.step_w[label], watts[inside]
        if step is None or not len(seen):
            continue
        changes = int(np.count_nonzero(np.diff(seen)))
        levels = len(np.unique(np.round(seen / step)))
        wanders = levels >= _DITHER_LEVELS and changes > _DITHER_CHANGES * len(seen)
        if wanders and float(np.std(seen)) > step / 2:
            random += step**2 / 12 / changes
        else:
            bound += step / 2
    return float(np.hypot(np.sqrt(random), bound / np.sqrt(3)))


def _stale_edges_w(found: Readings, window: Window) -> float:
    """A counter's reading is as old as its last update, differently at the two ends.

    When it is updated is only known from when it was seen to move: what was used between the
    moves around an end may be counted on its wrong side, a bound at each end.
    """
    counted = found.counted
    if counted is None or len(counted) < 2:
        return float("inf")
    moved = found.times[1:][np.diff(counted) > 0]
    ages = [_between(moved, end, found.period_s) for end in window]
    power_w = abs(mean_w(found, window))
    step = sum(each * found.period_s for each in found.step_w.values() if each is not None)
    return (power_w * math.hypot(*ages) + step) / (window[1] - window[0]) / np.sqrt(3)


def _between(moved: Floats, instant: float, least: float) -> float:
    """Time between the last move before an instant and the first one after it, in s."""
    after = int(np.searchsorted(moved, instant, side="right"))
    if after == 0 or after == len(moved):
        return least
    return max(least, float(moved[after] - moved[after - 1]))


def sampling_w(found: Readings, window: Window) -> float:
    """Standard uncertainty of the mean power from what happens between readings, in W.

    From successive differences, so that a slow change, which the trapezoid follows, does not
    count; gaps count with the whole spread of the window. A counter misses nothing.
    """
    length = window[1] - window[0]
    seen = found.total[found.within(window)]
    if found.counted is not None:
        return 0.0
    if len(seen) < 2:
        return float("inf")
    noise = float(np.sqrt(np.mean(np.diff(seen) ** 2) / 2 / len(seen)))
    unseen = float(np.ptp(seen)) / np.sqrt(12) * missing(found, window)
    return float(np.hypot(noise, unseen)) if length else float("inf")


def edges_w(found: Readings, window: Window, step_w: float) -> float:
    """Standard uncertainty of the mean power from the two ends of a window, in W.

    Args:
        step_w: Difference of the power inside and outside.
    """
    slack = found.period_s + found.lag_s
    return abs(step_w) * slack / (window[1] - window[0]) / np.sqrt(3)
