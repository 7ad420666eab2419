"""The whole protocol over the real pipe: waiting, resting, pacing, short memory, what is told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure
from edgeopt.measure.plan import NORMAL, PUBLISH, QUICK
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import material

SHORT = replace(
    QUICK, pairs=2, min_seconds=0.02, floor_s=0.02, repeats=0, profile_runs=2, pace_s=0.2
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return material(tmp_path_factory.mktemp("protocol"))


@pytest.fixture
def board(tmp_path: Path) -> dict[str, str]:
    """A system with one thermal zone, little memory, and locks of its own."""
    for name, text in {
        "proc/meminfo": "MemTotal: 90000 kB\nMemAvailable: 100000 kB\n",
        "proc/stat": "cpu 0 0 0 1000 0 0 0 0 0 0\n",
        "sys/class/thermal/thermal_zone0/temp": "50000\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {
        "EDGEOPT_SYSROOT": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "EDGEOPT_CACHE": str(tmp_path / "cache"),
    }


@pytest.fixture
def target(board: dict[str, str]) -> Iterator[LocalTarget]:
    with LocalTarget(environment=board) as made:
        yield made


class Counting:
    """Passes everything on to a target and remembers the verbs."""

    def __init__(self, target: LocalTarget) -> None:
        self._target = target
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def name(self) -> str:
        return self._target.name

    def put(self, path: Path) -> str:
        return self._target.put(path)

    def fetch(self, place: str) -> Path:
        return self._target.fetch(place)

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Any:
        self.asked.append((verb, arguments))
        return self._target.request(verb, deadline_s=deadline_s, **arguments)

    def close(self) -> None:
        self._target.close()


def ask(target: Any, files: tuple[Path, Path], **changed: Any) -> Outcome | Failure:
    job: dict[str, Any] = {
        "baseline": files[0],
        "candidate": files[0],
        "feeds": files[1],
        "settings": RuntimeSettings(),
        "baseline_settings": RuntimeSettings(),
        "protocol": SHORT,
        "identical": True,
    }
    return measure(target, **{**job, **changed})


def test_a_rate_gives_paced_values(target: LocalTarget, files: tuple[Path, Path]) -> None:
    """Beside the plain latency; without a rate there are none."""
    found = ask(target, files, rate_hz=100.0)
    assert isinstance(found, Outcome)
    assert found.values["paced_latency"].unit == "s"
    assert 0 <= found.values["deadline_misses"].value <= 1
    assert found.environment["placement"].startswith("all ")
    plain = ask(target, files)
    assert isinstance(plain, Outcome)
    assert not {"paced_latency", "deadline_misses"} & plain.values.keys()


def test_waiting_comes_first(target: LocalTarget, files: tuple[Path, Path]) -> None:
    """An idle machine is asked for before the first job, and nothing speaks against the run."""
    counting = Counting(target)
    found = ask(counting, files, wait_s=20.0)
    assert isinstance(found, Outcome)
    assert [verb for verb, _ in counting.asked] == ["idle", "footprint", "bench", "profile"]
    assert not any("busy_before" in reason for reason in found.verdict.reasons)


def test_rounds_rest_until_the_machine_is_cool(
    target: LocalTarget, files: tuple[Path, Path]
) -> None:
    """Between rounds, up to three degrees above the start; the quick rung never rests."""
    counting = Counting(target)
    found = ask(counting, files, protocol=replace(SHORT, rounds=2, cool_s=5.0))
    assert isinstance(found, Outcome)
    verbs = [verb for verb, _ in counting.asked]
    assert verbs == ["idle", "footprint", "bench", "idle", "bench", "profile"]
    assert counting.asked[3][1]["below_c"] == 53.0
    assert (QUICK.cool_s, NORMAL.cool_s, PUBLISH.cool_s) == (0.0, 60.0, 300.0)


def test_loads_of_fresh_processes(target: LocalTarget, files: tuple[Path, Path]) -> None:
    """The footprint and each round that opened the candidate first: an interval in normal."""
    found = ask(target, files, protocol=replace(SHORT, rounds=3))
    assert isinstance(found, Outcome)
    for name in ("load", "first_run"):
        assert found.values[name].interval
        assert found.values[name].note == "median of 3 fresh processes"


@pytest.mark.parametrize(("wish", "remark"), [("auto", False), (False, True)])
def test_sessions_in_turn(
    target: LocalTarget, files: tuple[Path, Path], wish: Any, remark: bool
) -> None:
    """A tiny model fits beside itself; in turn it is measured as well, and that is said."""
    found = ask(target, files, together=wish)
    assert isinstance(found, Outcome)
    assert any(reason.startswith("memory:") for reason in found.verdict.reasons) is remark
    assert ("together" in found.environment) is remark
    assert found.values["latency"].samples
    assert len(found.values["latency"].samples.blocks) == 2


def test_the_canary_is_compared_with_the_session(
    target: LocalTarget, files: tuple[Path, Path]
) -> None:
    """A pooled time that this machine is far from: told, and the values stay."""
    found = ask(target, files, baseline_latency_s=1.0)
    assert isinstance(found, Outcome)
    assert any(reason.startswith("canary_drift") for reason in found.verdict.reasons)
    assert found.values["latency"].value == 1.0
    assert found.verdict.status != "invalid" or len(found.verdict.reasons) > 1


def test_publish_can_say_p99() -> None:
    """Its least number of runs reaches the 662 that the rule wants."""
    runs = PUBLISH.rounds * PUBLISH.pairs * PUBLISH.min_runs
    assert runs >= 662
    assert PUBLISH.percentiles == (0.9, 0.99)
