"""Verdicts from raw facts: each reason alone, and a clean run."""

from typing import Any

import pytest
from measure_rounds import SETTINGS, bench, block, run

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Verdict
from edgeopt.measure.plan import QUICK
from edgeopt.measure.raw import RawRun
from edgeopt.measure.verdicts import disturbed, judge


def verdict(raw: RawRun, *, identical: bool = False) -> Verdict:
    return judge(raw, protocol=QUICK, settings=SETTINGS, identical=identical)


def plain(**changed: Any) -> RawRun:
    """Four equal pairs whose blocks all have these facts."""
    return run(bench([block(**changed)] * 4, [block(**changed)] * 4))


def test_a_quiet_run_is_valid() -> None:
    """Nothing speaks against it."""
    assert verdict(plain()) == Verdict()


@pytest.mark.parametrize(
    ("changed", "status", "word"),
    [
        ({"cpu_s": 0.030}, "suspect", "starved"),
        ({"cpu_s": 0.008}, "invalid", "starved"),
        ({"busy_s": 0.040 * 4.2}, "suspect", "busy"),
        ({"swapped_pages": 500}, "invalid", "swap"),
    ],
)
def test_facts_of_every_block(changed: dict[str, Any], status: str, word: str) -> None:
    """Starvation, others at work, swapping."""
    found = verdict(plain(**changed))
    assert found.status == status
    assert [reason.partition(":")[0] for reason in found.reasons] == [word]


@pytest.mark.parametrize(("late", "status"), [(1.02, "valid"), (1.05, "suspect"), (1.2, "invalid")])
def test_drift_of_the_baseline(late: float, status: str) -> None:
    """3 % makes it suspect, 10 % invalid."""
    drifting = [block(0.001)] * 2 + [block(0.001 * late)] * 2
    assert verdict(run(bench(drifting, drifting))).status == status


def test_one_drifting_round_of_three_is_suspect() -> None:
    """The ratio is paired and its interval is over rounds: one bad process is not the end."""
    steady, drifting = [block()] * 4, [block(0.001)] * 2 + [block(0.002)] * 2
    good, bad = bench(steady, steady), bench(drifting, drifting)
    assert verdict(run(good, bad, good)).status == "suspect"
    assert verdict(run(bad, bad, good)).status == "invalid"
    assert disturbed(bad, SETTINGS)
    assert not disturbed(good, SETTINGS)


def test_heat_and_clocks() -> None:
    """More than ten degrees, or five per cent of the clock, between blocks of a process."""
    hot = [block(temperature_c=50.0), block(temperature_c=65.0)] * 2
    slow = [block(clock_hz=2e9), block(clock_hz=1.5e9)] * 2
    assert verdict(run(bench(hot, hot))).reasons == ("heat: 50 to 65 °C",)
    assert verdict(run(bench(slow, slow))).reasons == ("clock: 1500 to 2000 MHz",)


def test_unknown_facts_are_no_accusation() -> None:
    """A system that tells neither load nor heat gives a valid run."""
    unknown = dict.fromkeys(("busy_s", "swapped_pages", "temperature_c", "clock_hz"))
    assert verdict(plain(**unknown)) == Verdict()


def test_unsettled_warm_up() -> None:
    """The last two windows must agree, on both sides."""
    reply = bench([block()] * 4, [block()] * 4)
    reply["baseline"]["warmup"]["medians_s"] = [0.001, 0.002]
    assert verdict(run(reply)).reasons[0].startswith("not_settled: baseline")


def test_too_few_blocks() -> None:
    """One pair has no interval."""
    assert "too_few_blocks" in verdict(run(bench([block()], [block()]))).reasons[0]


def test_the_same_file_must_look_the_same() -> None:
    """A against A beyond the tie of 5 % is suspect; a faster candidate is not."""
    raw = run(bench([block(0.0009)] * 4, [block(0.001)] * 4))
    assert "unequal" in verdict(raw, identical=True).reasons[0]
    assert verdict(raw) == Verdict()


def test_fallback_to_another_provider() -> None:
    """Nodes elsewhere are told with their share; all of them elsewhere is invalid."""

    def node(operator: str, provider: str) -> dict[str, Any]:
        return {"op": operator, "provider": provider, "time_s": 1.0}

    asked: dict[Any, RuntimeSettings] = {
        "candidate": RuntimeSettings(provider="CUDAExecutionProvider"),
        "baseline": RuntimeSettings(),
    }
    rounds = [bench([block()] * 4, [block()] * 4)]
    cuda, cpu = node("Conv", "CUDAExecutionProvider"), node("NonZero", "CPUExecutionProvider")
    for nodes, status in (([cuda, cpu], "suspect"), ([cpu], "invalid"), ([cuda], "valid")):
        raw = RawRun(footprint={}, rounds=rounds, profile={"nodes": nodes})
        found = judge(raw, protocol=QUICK, settings=asked, identical=False)
        assert found.status == status
