"""The baseline beside every candidate, against the session's: what drifts is told, noise is not."""

import numpy as np
import pytest
from measure_rounds import SETTINGS, bench, block, run, simulated

from edgeopt.measure.plan import QUICK
from edgeopt.measure.verdicts import canary, judge

ROUNDS = [(1, 4), (3, 3), (5, 5)]


@pytest.mark.parametrize(
    ("beside", "rounds", "status"),
    [(1.02, 3, "valid"), (1.04, 3, "suspect"), (0.95, 3, "suspect"), (1.04, 1, "valid")],
)
def test_more_than_three_per_cent_is_told(beside: float, rounds: int, status: str) -> None:
    """Of one process only what is above the 6 % that sessions of the same bytes differ by."""
    blocks = [block(0.001 * beside)] * 4
    assert canary(run(*[bench(blocks, blocks)] * rounds), 0.001).status == status


def test_it_says_that_the_ratio_holds() -> None:
    """It is suspect, never invalid; beyond 10 % it says what to do."""
    blocks = [block(0.00112)] * 4
    raw = run(bench(blocks, blocks))
    found = judge(raw, protocol=QUICK, settings=SETTINGS, identical=False, baseline_s=0.001)
    assert found.status == "suspect"
    assert found.reasons[0].startswith("canary_drift: the baseline beside it took +12.0%")
    assert "the ratio is paired and holds" in found.reasons[0]
    assert "measure the baseline again" in found.reasons[0]
    assert canary(raw, None).status == "valid"


@pytest.mark.parametrize(("rounds", "pairs"), ROUNDS)
@pytest.mark.parametrize("session", [0.01, 0.02])
def test_noise_alone_is_rarely_called_a_drift(rounds: int, pairs: int, session: float) -> None:
    """The same device: sessions 1 or 2 % apart, pooled from three processes like a study's."""
    alarms = 0
    for seed in range(300):
        pooled = simulated(
            rounds=3, pairs=3, ratio=1.0, session=session, noise=0.01, seed=10_000 + seed
        )
        beside = simulated(
            rounds=rounds, pairs=pairs, ratio=0.9, session=session, noise=0.01, seed=seed
        )
        medians = [float(np.median(b["times_s"])) for b in pooled.blocks("baseline")]
        alarms += canary(beside, float(np.median(medians))).status != "valid"
    assert alarms / 300 <= 0.05


@pytest.mark.parametrize(("rounds", "pairs"), ROUNDS)
def test_a_device_that_slowed_is_told(rounds: int, pairs: int) -> None:
    """A fifth slower than when the session began: nearly always seen."""
    seen = [
        canary(
            simulated(rounds=rounds, pairs=pairs, ratio=1.0, session=0.01, noise=0.01, seed=seed),
            0.001 / 1.2,
        ).status
        == "suspect"
        for seed in range(100)
    ]
    assert np.mean(seen) >= 0.95


@pytest.mark.parametrize(("rounds", "pairs"), ROUNDS)
def test_a_quiet_device_gives_valid_runs(rounds: int, pairs: int) -> None:
    """All verdicts together on pure noise, the same file beside itself: at most 5 % are accused."""
    accused = [
        judge(
            simulated(rounds=rounds, pairs=pairs, ratio=1.0, session=0.01, noise=0.005, seed=seed),
            protocol=QUICK,
            settings=SETTINGS,
            identical=True,
            baseline_s=0.001,
        ).status
        != "valid"
        for seed in range(300)
    ]
    assert np.mean(accused) <= 0.05
