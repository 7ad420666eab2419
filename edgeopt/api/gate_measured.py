"""Evidence from a device: fresh, interleaved with the base, and more of it until all is decided."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgeopt.api.device import Device, open_device
from edgeopt.api.gate_question import Answer, Evidences, Question
from edgeopt.api.noise import known_floor
from edgeopt.api.prepare import FEEDS
from edgeopt.api.providers import choose_provider
from edgeopt.core import digest as digests
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure
from edgeopt.core.samples import Interval
from edgeopt.errors import ConfigError, DeviceError, ModelError, UsageError
from edgeopt.gate.budget import Budget
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.pooling import absolute, pooled, spread
from edgeopt.graph.inputs import random_feeds
from edgeopt.measure.energy import energy_plan
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import protocol as protocol_named
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.bundle import agent_bundle

_NAMES = {
    "latency.p50": "latency",
    "latency.p90": "latency_p90",
    "latency.p99": "latency_p99",
    "energy": "energy",
    "peak_memory": "peak_memory",
    "load": "load",
}
TIMES_AT_MOST = 8
Undecided = Callable[[Evidences], bool]


def measured(question: Question, undecided: Undecided, progress: Callable[[str], None]) -> Answer:
    """Measure until every budget is decided, the time is over, or the device leaves.

    Args:
        question: What is asked.
        undecided: Whether evidence leaves a budget open.
        progress: Told one line an event.
    """
    end = time.monotonic() + question.time_s
    try:
        # The devices of the file that asks, wherever the command was given.
        project = question.config.resolve().parent
        with open_device(question.device, question.folder / "agent", project=project) as device:
            return _on(device, question, undecided, progress, end)
    except ModelError:  # of the base, which does not run there
        raise
    except UsageError as error:
        line = question.budgets[0].line
        raise ConfigError(error.what, where=f"{question.config}:{line}", hint=error.hint) from error
    except DeviceError as error:
        named = "" if question.device in error.what else f"{question.device}: "
        hint = f" ({error.hint})" if error.hint else ""
        absent = Absent(reason=f"{named}{error.what}{hint}", kind="device")
        return Answer(kind="", evidence={budget.id: absent for budget in question.budgets})


def _on(
    device: Device,
    question: Question,
    undecided: Undecided,
    progress: Callable[[str], None],
    end: float,
) -> Answer:
    def once() -> Outcome | Failure:
        progress(f"{question.device}: measuring")
        return _once(device, question)

    floor = known_floor(device.fingerprint, question.protocol, _settings(device).text)
    found = decided(question, once, undecided, lambda: time.monotonic() > end)
    return Answer(
        kind=f"{device.profile.name} {digests.short(device.fingerprint)}",
        evidence=found if floor is None else _with_floor(found, question, floor.floor),
    )


def _with_floor(found: Evidences, question: Question, floor: float) -> Evidences:
    """Evidence of latencies with what the device cannot see of them."""
    timed = {budget.id for budget in question.budgets if budget.metric.name.startswith("latency")}
    return {
        key: replace(one, floor=floor) if key in timed and isinstance(one, Evidence) else one
        for key, one in found.items()
    }


def decided(
    question: Question,
    once: Callable[[], Outcome | Failure],
    undecided: Undecided,
    over: Callable[[], bool],
) -> Evidences:
    """Evidence from one measurement after the other, until nothing is open or the time is over.

    Args:
        question: What is asked.
        once: One measurement.
        undecided: Whether evidence leaves a budget open.
        over: Whether no further measurement is begun.
    """
    outcomes: list[Outcome] = []
    found: Evidences = {}
    for _ in range(TIMES_AT_MOST):
        outcome = once()
        if isinstance(outcome, Failure):
            absent = Absent(reason=f"the model does not run on {question.device}: {outcome.reason}")
            return {budget.id: absent for budget in question.budgets}
        outcomes.append(outcome)
        found = _evidence(question, outcomes)
        if over() or not (_unusable(outcomes) or undecided(found)):
            break
    return found


def _unusable(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.verdict.status == "invalid" for outcome in outcomes)


def _once(device: Device, question: Question) -> Outcome | Failure:
    settings = _settings(device)
    energy = any(budget.metric.name == "energy" for budget in question.budgets)
    sensors = [sensor.name for sensor in device.profile.sensors]
    base = question.base or question.model
    agent_bundle(question.folder / "agent")
    return measure(
        device.target,
        baseline=base.path,
        candidate=question.model.path,
        feeds=_feeds(question),
        settings=settings,
        baseline_settings=settings,
        # Where the provider compiles, a change must be larger than between two builds of one file.
        protocol=replace(protocol_named(question.protocol), fresh_engines=True),
        identical=base.digest == question.model.digest,
        energy=energy_plan(question.protocol, sensors=sensors) if energy else None,
    )


def _settings(device: Device) -> RuntimeSettings:
    chosen = choose_provider(device.entry, device.profile, device.facts)
    return RuntimeSettings(provider=chosen.provider, options=dict(chosen.options))


def _feeds(question: Question) -> Path:
    path = question.folder / f"feeds-{question.device}.npz"
    if question.data is None:
        write_feeds(random_feeds(question.model, FEEDS, shapes={}), path)
    else:
        write_feeds(question.data.search.feeds[:FEEDS], path)
    return path


def _evidence(question: Question, outcomes: Sequence[Outcome]) -> Evidences:
    usable = [outcome for outcome in outcomes if outcome.verdict.status != "invalid"]
    if _unusable(outcomes):
        reasons = "; ".join(outcomes[-1].verdict.reasons)
        absent = Absent(reason=f"no measurement on {question.device} can be used: {reasons}")
        return {budget.id: absent for budget in question.budgets}
    return {budget.id: _one(budget, question, usable) for budget in question.budgets}


def _one(budget: Budget, question: Question, usable: Sequence[Outcome]) -> Evidence | Absent:
    name = _NAMES[budget.metric.name]
    values = [outcome.values[name] for outcome in usable if name in outcome.values]
    if not values:
        reason = usable[-1].absent.get(name, f"the protocol {question.protocol} does not give it")
        return Absent(reason=f"no {budget.metric.title}: {reason}")
    note = "; ".join(dict.fromkeys(r for o in usable for r in o.verdict.reasons))
    samples = [value.samples for value in values if value.samples is not None]
    if len(samples) == len(values) and samples[0].baseline:
        every = pooled(samples)
        interval = absolute(every)
        return Evidence(
            value=interval.value,
            origin="measured",
            interval=interval,
            base=None if question.base is None else every.baseline_median,
            change=None if question.base is None else _change(every.ratio, question),
            note=f"{every.fresh_rounds} fresh processes" + (f"; {note}" if note else ""),
        )
    # One look says nothing of its spread, and the last of several would be the luckiest.
    interval = spread([value.value for value in values])
    told = f"{len(values)} measurements" + (f"; {note}" if note else "")
    return Evidence(value=interval.value, origin="measured", interval=interval, note=told)


def _change(ratio: Interval, question: Question) -> Interval:
    """Of one and the same file the ratio is 1; what was measured is what cannot be told apart."""
    assert question.base is not None
    if question.base.digest != question.model.digest:
        return ratio
    return Interval(value=1.0, low=min(1.0, ratio.low), high=max(1.0, ratio.high))
