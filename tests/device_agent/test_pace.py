"""Inference at a rate: what is waited for, what is missed, what is dropped."""

from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import bench_job, material
from tests.device_agent.in_agent import apart, in_agent

SIMULATED = """
import pace
class Time:
    now = 100.0
    def read(self): return self.now
    def sleep(self, seconds): self.now += seconds
time = Time()
class Model:
    def once(self, number):
        served.append(number)
        time.now += costs[min(len(served) - 1, len(costs) - 1)]
served, costs = [], {costs}
times, missed = pace.run_periods(Model(), 10.0, {periods}, clock=time.read, sleep=time.sleep)
answer = [served, [round(each, 6) for each in times], missed, round(time.now - 100.0, 6)]
"""


def simulated(costs: list[float], periods: int) -> tuple[list[int], list[float], int, float]:
    """Periods of 0.1 s on a clock that only runs and waits move."""
    served, times, missed, spent = in_agent(SIMULATED.format(costs=costs, periods=periods))
    return served, times, missed, spent


def test_a_fast_model_waits_for_each_period() -> None:
    """Every period is served at its start; the latency is the run's own."""
    served, times, missed, spent = simulated([0.03], 5)
    assert served == [0, 1, 2, 3, 4]
    assert times == [0.03] * 5
    assert missed == 0
    assert spent == pytest.approx(0.43)


def test_one_slow_run_makes_the_next_wait() -> None:
    """Its own period is missed; the next input waits in the buffer and is served late, in time."""
    served, times, missed, _ = simulated([0.03, 0.15, 0.03], 5)
    assert served == [0, 1, 2, 3, 4]
    assert times == [0.03, 0.15, 0.08, 0.03, 0.03]
    assert missed == 1


def test_what_was_overtaken_is_dropped() -> None:
    """After 3.5 periods only the newest input is run; the two it overtook are missed too."""
    served, times, missed, _ = simulated([0.35, 0.03], 6)
    assert served == [0, 3, 4, 5]
    assert times[:2] == [0.35, 0.08]
    assert missed == 3


def test_a_model_slower_than_the_rate_misses_everything() -> None:
    """No period has its result in time, and those after the last run count too."""
    served, _, missed, _ = simulated([0.25], 8)
    assert missed == 8
    assert len(served) < 8


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return material(tmp_path_factory.mktemp("pace"))


def pace_job(model: Path, feeds: Path, **changed: Any) -> dict[str, Any]:
    job = bench_job(str(model), str(feeds), rate_hz=100.0, periods=20, **changed)
    return {key: value for key, value in job.items() if key not in {"min_seconds", "min_runs"}}


def test_windows_of_both_sides(place: tuple[Path, Path], tmp_path: Path) -> None:
    """The agent's own clock: windows last as long as their periods; their cost is told."""
    with LocalTarget(environment=apart(tmp_path)) as target:
        reply = target.request("pace", deadline_s=120, **pace_job(*place))
        for side in ("candidate", "baseline"):
            assert len(reply[side]["blocks"]) == 2
            for block in reply[side]["blocks"]:
                assert block["periods"] == 20
                assert 0 < len(block["times_s"]) <= 20
                assert block["wall_s"] >= 0.19
                assert 0 < block["cpu_s"] < block["wall_s"] * 2
                assert "throttle" in block
        refused = target.request("pace", deadline_s=60, **pace_job(*place, pairs=None))
        assert refused["error"]["code"] == "bad_request"
