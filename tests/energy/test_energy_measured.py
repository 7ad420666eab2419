"""`measure` with an energy plan: values beside the latency, or the reason why there are none."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.measure.energy import EnergyPlan
from edgeopt.measure.plan import QUICK
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import material
from tests.boards.boards import build
from tests.boards.waveform import Waveform
from tests.energy.agent_energy import JOB

SHORT = replace(QUICK, pairs=2, min_seconds=0.02, floor_s=0.02, repeats=0)
PLAN = EnergyPlan(
    window_s=1.0,
    counter_window_s=0.8,
    idle_s=0.4,
    settle_s=0.05,
    blocks=2,
    min_runs=5,
    min_updates=5,
    warmup=JOB["warmup"],
)


def measured(
    root: Path,
    folder: Path,
    plan: EnergyPlan | None,
    *,
    environment: Mapping[str, str] | None = None,
    **changed: Any,
) -> Outcome:
    """A model beside itself on a fake board."""
    model, feeds = material(folder)
    variables = {"EDGEOPT_SYSROOT": str(root), **(environment or {})}
    with LocalTarget(environment=variables) as target:
        found = measure(
            target,
            baseline=model,
            candidate=model,
            feeds=feeds,
            settings=RuntimeSettings(),
            baseline_settings=RuntimeSettings(),
            energy=plan,
            **{"protocol": SHORT, **changed},
        )
    assert isinstance(found, Outcome)
    return found


def test_energy_stands_beside_the_latency(tmp_path: Path) -> None:
    """Gross joules and power with their scope; at a rate joules of that too."""
    root = build("x86-n100", tmp_path / "root")
    with Waveform(root, "x86-n100", lambda _: 9.0):
        found = measured(root, tmp_path, PLAN, rate_hz=20.0)
    assert {"latency", "energy", "power", "paced_energy"} <= set(found.values)
    assert found.values["energy"].unit == "J"
    assert found.environment["energy_scope"] == "package"
    assert found.environment["energy_rate_hz"] == "20"
    assert "at 20 runs a second" in found.values["paced_energy"].note


def test_a_sampler_that_does_not_start_is_no_crash_of_the_candidate(tmp_path: Path) -> None:
    """The latency stands, and the energy is absent with the sensor's name."""
    root = build("x86-n100", tmp_path / "root")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, sys\nif 'import sampler' in ' '.join(sys.orig_argv): os._exit(3)\n"
    )
    found = measured(root, tmp_path, PLAN, environment={"PYTHONPATH": str(tmp_path / "site")})
    assert "latency" in found.values
    assert "rapl did not start (exit code 3)" in found.absent["energy"]


def test_no_plan_and_no_sensor_are_reasons(tmp_path: Path) -> None:
    """Never a number that nobody measured."""
    root = build("raspberry-pi-4", tmp_path / "root")
    assert "quick protocol has no energy pass" in measured(root, tmp_path, None).absent["energy"]
    unasked = measured(root, tmp_path, None, protocol=replace(SHORT, name="normal"))
    assert unasked.absent["energy"] == "not measured: it was not asked for"
    found = measured(root, tmp_path, PLAN)
    assert "voltages" in found.absent["energy"]
    assert "energy" not in found.values
