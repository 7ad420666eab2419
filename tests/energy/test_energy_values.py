"""Joules from simulated readings: coverage of the stated uncertainty, and every flag."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from edgeopt.core.measurement import Failure, Value
from edgeopt.measure import power as readings
from edgeopt.measure.energy import Energy, comparable, energy_plan, energy_values, run_energy
from edgeopt.measure.jobs import CandidateError
from tests.energy.simulated import RUNS, Model, load, reply, true_j, windows

_SIX = {"GPU": 0.2, "CPU": 0.3, "SOC": 0.2, "CV": 0.05, "VDDRQ": 0.1, "SYS5V": 0.15}
_THREE = {"VDD_GPU_SOC": 0.45, "VDD_CPU_CV": 0.3, "VIN_SYS_5V0": 0.25}
MODELS = {
    "module rail of 40 mW": Model(),
    "six rails of 96 mW": Model(shares=_SIX, steps=dict.fromkeys(_SIX, 0.096)),
    "three rails, 0.4 W": Model(
        shares=_THREE, steps={"VDD_GPU_SOC": 0.4, "VDD_CPU_CV": 0.4, "VIN_SYS_5V0": 0.1}
    ),
    "supply of 50 mW": Model(shares={"VIN": 1.0}, steps={"VIN": 0.05}),
    "rails of unknown step": Model(stated=False, hz=8.0, gain=None),
    "battery": Model(steps={"VDD_IN": 0.004}, stated=False, hz=2.0, gain=None),
    "counter": Model(kind="counter", steps={"VDD_IN": 61e-6}, hz=50.0, gain=None),
}


def holds(value: Value, truth: float) -> bool:
    """Whether the interval holds the truth."""
    return value.interval is not None and value.interval.contains(truth)


@pytest.mark.parametrize("name", MODELS)
def test_stated_uncertainty_covers_the_truth(name: str) -> None:
    """k = 2: at least 93 of 100 simulated passes hold the true gross and net joules."""
    random = np.random.default_rng(7)
    blocks = windows(3, 4.0, 12.0)
    gross, net, widths = [], [], []
    for seed in range(100):
        idle, busy = random.uniform(3, 6), random.uniform(8, 20)
        watts = load(blocks, idle, busy, ripple=random.uniform(0, 0.05))
        raw = reply(watts, blocks, MODELS[name], seed=seed, noise_w=random.uniform(0, 0.1))
        found = energy_values(raw)
        length = 12.0
        truth = float(np.mean([true_j(watts, block["busy"]) for block in blocks])) / RUNS
        gross.append(holds(found.values["energy"], truth))
        net.append(holds(found.values["energy_net"], truth - idle * length / RUNS))
        interval = found.values["energy"].interval
        assert interval
        widths.append((interval.high - interval.low) / truth)
    assert np.mean(gross) >= 0.93
    assert np.mean(net) >= 0.93
    assert np.median(widths) < 0.2, "an interval that says nothing covers everything"


def test_mean_power_is_energy_times_rate() -> None:
    """Joules an inference times inferences a second is the power."""
    blocks = windows(2, 2.0, 5.0)
    found = energy_values(reply(load(blocks, 4.0, 9.0), blocks)).values
    assert found["energy"].value * RUNS / 5.0 == pytest.approx(found["power"].value)
    assert found["energy_net"].value < found["energy"].value


def usual(**changed: Any) -> dict[str, Any]:
    """A good reply with changes of its sensor's readings."""
    blocks = windows(2, 3.0, 6.0)
    return {**reply(load(blocks, 4.0, 9.0, 0.02), blocks, noise_w=0.05), **changed}


def edited(change: Any) -> Energy:
    """The result of a reply whose rows were changed: (instant, row, reply) to row."""
    raw = usual()
    samples = raw["samples"]
    pairs = zip(samples["t_s"], samples["values"], strict=True)
    samples["values"] = [change(t, row, raw) for t, row in pairs]
    return energy_values(raw)


def test_good_readings_are_valid() -> None:
    """No flag without a reason for one; sensor, scope and rails are told."""
    found = energy_values(usual())
    assert found.verdict.status == "valid"
    assert found.absent == {}
    assert found.environment["energy_scope"] == "module"
    assert found.environment["energy_rails"] == "VDD_IN"
    assert "module" in found.values["energy"].note


def test_stale_readings_give_no_value() -> None:
    """One and the same reading, idle or not."""
    found = edited(lambda t, row, raw: [5.0])
    assert not found.values
    assert found.absent["energy"].startswith("stale")


def test_readings_that_stop_changing_are_stale() -> None:
    """The sensor stands still through most of a window although its steps are fine."""

    def stand(t: float, row: list[float], raw: Any) -> list[float]:
        begin, end = raw["blocks"][1]["busy"]
        return [9.0] if begin + 1 < t < end else row

    assert edited(stand).absent["energy"].startswith("stale")


def test_wide_steps_are_not_stale() -> None:
    """Steps of 0.4 W repeat themselves under a steady load; that widens the interval only."""
    blocks = windows(2, 3.0, 6.0)
    model = Model(steps={"VDD_IN": 0.4})
    found = energy_values(reply(load(blocks, 4.0, 9.0), blocks, model))
    interval = found.values["energy"].interval
    assert interval
    assert (interval.high - interval.low) * RUNS / 6.0 > 0.4


def test_negative_readings_are_flagged() -> None:
    """Some below zero are suspect; a mean below zero is no value."""
    some = edited(lambda t, row, raw: [-1.0] if int(t * 10) % 10 == 0 else row)
    assert some.verdict.status == "suspect"
    assert any("negative" in reason for reason in some.verdict.reasons)
    assert "negative" in edited(lambda t, row, raw: [-row[0]]).absent["energy"]


def test_one_step_below_zero_is_noise() -> None:
    """An idle rail may read a step below zero."""
    found = edited(lambda t, row, raw: [-0.04] if int(t * 10) % 10 == 0 else row)
    assert not any("negative" in reason for reason in found.verdict.reasons)


def test_missing_readings_are_flagged() -> None:
    """A quarter of a window is suspect and widens the interval; most of one gives no value."""

    def hole(share: float) -> Energy:
        def cut(t: float, row: list[float], raw: Any) -> list[float] | None:
            begin, end = raw["blocks"][0]["busy"]
            return None if begin < t < begin + share * (end - begin) else row

        return edited(cut)

    some = hole(0.25)
    assert any("missing" in reason for reason in some.verdict.reasons)
    whole = energy_values(usual()).values["energy"].interval
    mine = some.values["energy"].interval
    assert mine
    assert whole
    assert mine.high - mine.low > whole.high - whole.low
    assert hole(0.7).absent["energy"].startswith("missing")


def test_no_reading_at_all_says_the_sensors_words() -> None:
    """Charging: every reading failed, and the last word says why."""
    raw = usual()
    raw["samples"]["values"] = [None] * len(raw["samples"]["t_s"])
    raw["samples"]["events"] = [{"t_s": 1.0, "kind": "invalid", "text": "external power"}]
    assert "external power" in energy_values(raw).absent["energy"]


def test_renumbered_rails_are_told() -> None:
    """Found again by label: a value, with the event in the verdict."""
    raw = usual()
    raw["samples"]["events"] = [{"t_s": 5.0, "kind": "renumbered", "text": "again"}]
    found = energy_values(raw)
    assert found.values
    assert any("renumbered" in reason for reason in found.verdict.reasons)


def test_idle_drift_is_flagged() -> None:
    """Idle power that is not the same afterwards."""
    found = edited(lambda t, row, raw: [row[0] + (0.5 if t > 10 else 0.0)])
    assert any("idle_drift" in reason for reason in found.verdict.reasons)


def test_runs_below_the_resolution_have_no_net_energy() -> None:
    """Net energy that is not above zero is absent, gross energy is not."""
    blocks = windows(2, 3.0, 6.0)
    found = energy_values(reply(load(blocks, 4.0, 3.99), blocks, noise_w=0.05))
    assert "energy" in found.values
    assert found.absent["energy_net"].startswith("below_resolution")


def counter(**changed: Any) -> dict[str, Any]:
    """A counter that wraps after 5 J."""
    blocks = windows(1, 2.0, 5.0)
    model = Model(**{"kind": "counter", "steps": {"VDD_IN": 61e-6}, "hz": 50.0, **changed})
    return reply(load(blocks, 4.0, 9.0), blocks, model)


def test_counter_wraps() -> None:
    """A counter that starts again loses nothing."""
    found = energy_values(counter(gain=None))
    assert found.environment["energy_wraps"] == "1"
    assert found.values["energy"].value == pytest.approx(9.0 * 5.0 / RUNS, rel=0.02)
    assert "not traceable" in found.values["energy"].note


def test_counter_that_falls_without_a_range_gives_no_value() -> None:
    """A reset is no wrap."""
    raw = counter()
    raw["sensor"]["ranges_j"] = {}
    assert "counter_reset" in energy_values(raw).absent["energy"]


def test_counter_that_stands_still_is_stale() -> None:
    """No energy at all is no energy measured."""
    raw = counter()
    raw["samples"]["values"] = [[1.0]] * len(raw["samples"]["t_s"])
    assert "stale" in energy_values(raw).absent["energy"]


def test_throttling_during_a_window_is_told() -> None:
    """Counters that rose."""
    raw = usual()
    raw["blocks"][0]["state"] = {"throttle": {"oc3_event_cnt": 12}}
    assert any("oc3_event_cnt" in reason for reason in energy_values(raw).verdict.reasons)


def test_no_sensor_is_a_reason() -> None:
    """The device's own words."""
    found = energy_values({"sensor": None, "reason": "rapl: root only"})
    assert found.absent == {"energy": "rapl: root only"}


def test_scopes_are_never_mixed() -> None:
    """Another scope, sensor or set of rails: no value, and the reason says which two."""
    mine = energy_values(usual())
    assert comparable(mine.environment, mine.environment) == ""
    for key in ("energy_scope", "energy_sensor", "energy_rails"):
        assert "other" in comparable(mine.environment, {**mine.environment, key: "other"})


def test_trapezoid_interpolates_the_edges() -> None:
    """A ramp is integrated exactly, also where the window ends between two readings."""
    raw = usual()
    raw["samples"]["t_s"] = np.arange(0, 30, 0.5).tolist()
    raw["samples"]["values"] = [[2 * t] for t in raw["samples"]["t_s"]]
    found = readings.readings(raw)
    assert readings.joules(found, (3.3, 8.7)) == pytest.approx(8.7**2 - 3.3**2)


def test_plans_follow_the_protocol() -> None:
    """Quick measures none, publish more than normal; the deadline has room for slow sensors."""
    normal, publish = energy_plan("normal"), energy_plan("publish", sensors=["rapl"], rate_hz=30)
    assert energy_plan("quick") is None
    assert normal
    assert publish
    assert publish.seconds() > normal.seconds() > 100
    assert normal.deadline_s > normal.seconds()
    assert publish.arguments()["sensors"] == ["rapl"]
    assert publish.arguments()["rate_hz"] == 30


def test_a_sensor_that_dies_in_the_middle_is_stale() -> None:
    """The first block changes all the time, the second not once."""
    found = edited(lambda t, row, raw: [9.0] if t > raw["blocks"][1]["busy"][0] else row)
    assert "stale" in found.absent["energy"]


def test_a_steady_load_within_one_step_is_not_stale() -> None:
    """Readings that differ between idle and busy only."""
    blocks = windows(2, 3.0, 6.0)
    assert "energy" in energy_values(reply(load(blocks, 4.0, 9.0), blocks)).values


def test_a_second_pass_that_fails_costs_only_its_own_value() -> None:
    """Energy back to back stands when the paced pass cannot be run."""
    replies = iter([usual()])

    def ask(verb: str, **_: object) -> Mapping[str, Any]:
        reply = next(replies, None)
        if reply is None:
            raise CandidateError(Failure(stage="run", reason="it took too long"))
        return reply

    found = run_energy(ask, energy_plan("normal"), rate_hz=30)
    assert "energy" in found.values
    assert found.absent["paced_energy"] == "it took too long"
