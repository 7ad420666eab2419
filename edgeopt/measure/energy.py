"""Joules per inference from the raw readings of the agent's `energy`, and what speaks against them.

Gross energy is all that the sensor's scope used while the runs went on; net energy is that less
what the same time costs while the session is loaded and idle. Energy belongs to a scope (module,
board, package, ...): values of two scopes are never compared, see `comparable`. Sensors and
methods were tested on simulated boards only, not on hardware.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgeopt.core.measurement import Value, Verdict
from edgeopt.core.samples import Interval, student
from edgeopt.measure import power
from edgeopt.measure.flags import Flaw, flaws
from edgeopt.measure.jobs import CandidateError

METRICS = ("energy", "energy_net", "power")
PACED = "paced_energy"
_COVERAGE = 2.0
_KEYS = ("energy_scope", "energy_sensor", "energy_rails")
_GRACE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyPlan:
    """How much is run for one energy pass. It takes blocks * (window + idle) + idle seconds.

    Args:
        window_s: Least length of a busy window.
        counter_window_s: The same for sensors that count joules: they need far less.
        idle_s: Length of an idle window.
        settle_s: Wait before an idle window, for what the runs left behind.
        blocks: Busy windows.
        min_runs: Least runs of a window (which gets at most three times as long for it).
        min_updates: Least readings of a window, for slow sensors.
        warmup: As in `bench`.
        sensors: Names by preference; empty takes the board's first.
        rate_hz: Runs a second; None runs back to back.
    """

    window_s: float
    counter_window_s: float
    idle_s: float
    settle_s: float
    blocks: int
    min_runs: int
    min_updates: int
    warmup: Mapping[str, float]
    sensors: tuple[str, ...] = ()
    rate_hz: float | None = None

    def arguments(self) -> dict[str, Any]:
        """The plan's part of an `energy` job."""
        return {
            "window_s": self.window_s,
            "counter_window_s": self.counter_window_s,
            "idle_s": self.idle_s,
            "settle_s": self.settle_s,
            "blocks": self.blocks,
            "min_runs": self.min_runs,
            "min_updates": self.min_updates,
            "warmup": dict(self.warmup),
            "sensors": list(self.sensors),
            "rate_hz": self.rate_hz,
        }

    def seconds(self, window_s: float | None = None) -> float:
        """About how long a pass takes; its start and its warm-up come on top."""
        busy = self.window_s if window_s is None else window_s
        idle = self.idle_s + self.settle_s
        return self.blocks * (busy + idle) + idle

    @property
    def deadline_s(self) -> float:
        """When the device ends the job: windows can get three times as long, slow sensors ten."""
        slowest = max(3 * self.window_s, self.window_s + self.min_updates)
        return self.seconds(slowest) + self.warmup["cap_s"] + _GRACE_S


_WARMUP = {"floor_s": 1.0, "floor_runs": 10, "cap_s": 20.0, "tolerance": 0.02}
PLANS: Mapping[str, EnergyPlan | None] = {
    "quick": None,
    "normal": EnergyPlan(
        window_s=30.0,
        counter_window_s=5.0,
        idle_s=10.0,
        settle_s=1.0,
        blocks=3,
        min_runs=30,
        min_updates=200,
        warmup=_WARMUP,
    ),
    "publish": EnergyPlan(
        window_s=60.0,
        counter_window_s=10.0,
        idle_s=30.0,
        settle_s=2.0,
        blocks=5,
        min_runs=100,
        min_updates=200,
        warmup={**_WARMUP, "cap_s": 60.0, "tolerance": 0.01},
    ),
}


def energy_plan(
    protocol: str, *, sensors: Sequence[str] = (), rate_hz: float | None = None
) -> EnergyPlan | None:
    """The plan of a protocol's rung; None where it measures no energy (`quick`, unknown names)."""
    plan = PLANS.get(protocol)
    return None if plan is None else replace(plan, sensors=tuple(sensors), rate_hz=rate_hz)


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """What one energy pass found.

    Args:
        values: `energy`, `energy_net` (J an inference) and `power` (W); at a rate `paced_energy`.
        absent: Metric to the reason why it has no value.
        verdict: Suspect with reasons; never invalid, since unusable readings give no value.
        environment: Sensor, scope and windows, for readers and for `comparable`.
    """

    values: Mapping[str, Value]
    absent: Mapping[str, str]
    verdict: Verdict
    environment: Mapping[str, str]

    @staticmethod
    def nothing(reason: str, *, rate_hz: float | None = None) -> "Energy":
        """The result of no pass: only what a reader would look for is absent, and why."""
        absent = {"energy" if rate_hz is None else PACED: reason}
        return Energy(values={}, absent=absent, verdict=Verdict(), environment={})


def metrics_of(rate_hz: float | None) -> tuple[str, ...]:
    """What a pass reports."""
    return METRICS if rate_hz is None else (PACED,)


def run_energy(
    ask: Callable[..., Mapping[str, Any]],
    plan: EnergyPlan | None,
    *,
    rate_hz: float | None = None,
    protocol: str = "",
) -> Energy:
    """The energy pass of one candidate, and with a rate a second one at that rate.

    Args:
        ask: Sends a job of the candidate; given the verb, `deadline_s` and the plan's arguments.
        plan: How much is run; None runs nothing and says so.
        rate_hz: Runs a second that the user needs.
        protocol: The rung, for the reason where no plan is given.

    Raises:
        CandidateError: Of `ask`, in the first pass; of the second one only its value is absent.
        DeviceError: Of `ask`.
    """
    if plan is None:
        without = protocol in PLANS and PLANS[protocol] is None
        why = f"the {protocol} protocol has no energy pass" if without else "it was not asked for"
        return Energy.nothing(f"not measured: {why}")
    reply = ask("energy", deadline_s=plan.deadline_s, **plan.arguments())
    found = energy_values(reply, rate_hz=plan.rate_hz)
    if rate_hz is None or reply.get("sensor") is None:
        return found
    paced = replace(plan, rate_hz=rate_hz)
    try:
        again = ask("energy", deadline_s=paced.deadline_s, **paced.arguments())
    except CandidateError as error:
        return replace(found, absent={**found.absent, PACED: error.failure.reason})
    at_rate = energy_values(again, rate_hz=rate_hz)
    return Energy(
        values={**found.values, **at_rate.values},
        absent={**found.absent, **at_rate.absent},
        verdict=found.verdict & at_rate.verdict,
        environment={**at_rate.environment, **found.environment},
    )


def energy_values(reply: Mapping[str, Any], *, rate_hz: float | None = None) -> Energy:
    """Values, reasons and facts of one reply of `energy`.

    Args:
        reply: Of the agent, with the samples of a meter filled in where the host reads it.
        rate_hz: At which the runs were paced; None for back to back.
    """
    if reply.get("sensor") is None:
        return Energy.nothing(str(reply.get("reason") or "no power sensor"), rate_hz=rate_hz)
    found, blocks = power.readings(reply), reply["blocks"]
    problems = flaws(found, reply)
    environment = _environment(found, reply, rate_hz)
    fatal = [problem.reason for problem in problems if problem.fatal]
    if fatal:
        absent = dict.fromkeys(metrics_of(rate_hz), "; ".join(fatal))
        return Energy(values={}, absent=absent, verdict=Verdict(), environment=environment)
    gross, net, watts = _estimates(found, blocks)
    note = _note(found, reply)
    values = {
        "energy": _value(gross, "J", note),
        "power": _value(watts, "W", note),
    }
    absent: dict[str, str] = {}
    if net.value > 0:
        text = note if net.low > 0 else f"{note}; not told apart from idle"
        values["energy_net"] = _value(net, "J", text)
    else:
        absent["energy_net"] = "below_resolution: the runs cannot be told apart from idle"
        problems += [Flaw("energy_net is below the sensor's resolution")]
    if rate_hz is not None:
        note = f"{note}; at {rate_hz:g} runs a second"
        values = {PACED: replace(values["energy"], note=note)}
        absent = {}
    reasons = tuple(f"energy: {problem.reason}" for problem in problems)
    verdict = Verdict(status="suspect", reasons=reasons) if reasons else Verdict()
    return Energy(values=values, absent=absent, verdict=verdict, environment=environment)


def _window(pair: Sequence[float]) -> power.Window:
    return float(pair[0]), float(pair[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """One busy window in W, and its standard uncertainties: shared by all blocks, and its own."""

    per_run_s: float
    mean_w: float
    net_w: float
    shared: float
    shared_net: float
    own: float
    own_net: float


def _block(found: power.Readings, block: Mapping[str, Any]) -> _Block:
    busy = _window(block["busy"])
    idle = [_window(block[key]) for key in ("idle_before", "idle_after")]
    mean_w = power.mean_w(found, busy)
    net_w = mean_w - float(np.mean([power.mean_w(found, window) for window in idle]))
    steps = power.quantization_w(found, busy)
    idle_steps = max(power.quantization_w(found, window) for window in idle)
    edges = power.edges_w(found, busy, net_w)
    gain = (found.gain or 0.0) / math.sqrt(3)
    sampled = power.sampling_w(found, busy)
    idle_sampled = float(np.mean([power.sampling_w(found, window) for window in idle]))
    return _Block(
        per_run_s=(busy[1] - busy[0]) / int(block["runs"]),
        mean_w=mean_w,
        net_w=net_w,
        shared=math.hypot(steps, edges, gain * mean_w),
        shared_net=math.hypot(steps, idle_steps, edges, gain * net_w),
        own=sampled,
        own_net=math.hypot(sampled, idle_sampled),
    )


def _estimates(
    found: power.Readings, blocks: Sequence[Mapping[str, Any]]
) -> tuple[Interval, Interval, Interval]:
    """Gross and net joules an inference, and mean power, each with its interval (k = 2).

    The uncertainties that all blocks share (scale, half steps) do not shrink with their number;
    the others do, and are at least what the blocks differ by.
    """
    all_ = [_block(found, block) for block in blocks]
    gross = _interval(
        [(b.mean_w * b.per_run_s, b.shared * b.per_run_s, b.own * b.per_run_s) for b in all_]
    )
    net = _interval(
        [(b.net_w * b.per_run_s, b.shared_net * b.per_run_s, b.own_net * b.per_run_s) for b in all_]
    )
    watts = _interval([(b.mean_w, b.shared, b.own) for b in all_])
    return _above_zero(gross), net, _above_zero(watts)


def _above_zero(found: Interval) -> Interval:
    """What cannot be negative."""
    return replace(found, low=max(0.0, found.low))


def _interval(blocks: Sequence[tuple[float, float, float]]) -> Interval:
    """Mean of the blocks ± twice the combined standard uncertainty.

    Args:
        blocks: Value, shared uncertainty, own uncertainty of each.
    """
    values, shared, own = (np.array(column) for column in zip(*blocks, strict=True))
    count = len(values)
    random = float(np.sqrt(np.mean(own**2) / count))
    if count > 1:
        # Few blocks: Student's quantile over the normal one.
        spread = float(np.std(values, ddof=1)) / math.sqrt(count)
        random = max(random, spread * student(count - 1) / student(None))
    expanded = _COVERAGE * math.hypot(random, float(np.mean(shared)))
    centre = float(np.mean(values))
    return Interval(value=centre, low=centre - expanded, high=centre + expanded)


def _value(interval: Interval, unit: str, note: str) -> Value:
    if math.isfinite(interval.high):
        return Value(value=interval.value, unit=unit, interval=interval, note=note)
    return Value(value=interval.value, unit=unit, note=f"{note}; too few readings for an interval")


def _note(found: power.Readings, reply: Mapping[str, Any]) -> str:
    sensor = reply["sensor"]
    text = f"scope {sensor['scope']}, sensor {sensor['name']}"
    if found.gain is None:
        text += ", scale not traceable"
    return text


def _environment(
    found: power.Readings, reply: Mapping[str, Any], rate_hz: float | None
) -> dict[str, str]:
    sensor, blocks = reply["sensor"], reply["blocks"]
    lengths = [block["busy"][1] - block["busy"][0] for block in blocks]
    environment = {
        "energy_scope": str(sensor["scope"]),
        "energy_sensor": str(sensor["name"]),
        "energy_rails": " + ".join(sensor["total"]),
        "energy_window": f"{len(blocks)} × {np.mean(lengths):.1f} s",
        "energy_readings": str(len(found.times)),
    }
    known = [step for step in found.step_w.values() if step is not None]
    if known and found.counted is None:
        environment["energy_resolution_w"] = f"{sum(known):.3g}"
    if found.wraps:
        environment["energy_wraps"] = str(found.wraps)
    if rate_hz is not None:
        environment["energy_rate_hz"] = f"{rate_hz:g}"
    if sensor.get("note"):
        environment["energy_note"] = str(sensor["note"])
    return environment


def comparable(mine: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Why two environments' energies must not be compared; empty where they may.

    Scope, sensor and rails must be the same. (Energy at a rate is a metric of its own.)
    """
    for key in _KEYS:
        if mine.get(key) != other.get(key):
            name = key.removeprefix("energy_")
            return (
                f"energy was read from another {name}: {mine.get(key, 'none')} "
                f"against {other.get(key, 'none')}"
            )
    return ""
