"""Recordings stay usable: what is counted today may be more than what was counted then."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.core.estimates import LATENCY
from edgeopt.estimate.work import NAMES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RECORDINGS = sorted((BENCHMARKS / "recordings").glob("*.json.gz"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_an_estimator_learns_from_every_recording(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Work that was recorded before a feature was counted is read as if there was none of it."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    recorded = pytest.importorskip("recorded")
    recording = recorded.Recording(path)
    simulator = recorded.Simulator(recording)
    space = recorded.Space(recording, simulator)
    estimator = recorded.SimulatedEstimator(recording, space)
    candidates = [candidate for _, candidate in space.guesses()]
    trials = [
        simulator.trial(n, one, space.codes(one.recipe), 0) for n, one in enumerate(candidates)
    ]
    before = estimator.predict(candidates[-1].recipe).changes[LATENCY]
    estimator.learn(trials)
    after = estimator.predict(candidates[-1].recipe).changes[LATENCY]
    assert np.isfinite([before.mean, after.mean]).all()
    assert before.mean != after.mean


def test_work_is_read_by_name_and_what_has_no_price_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Neither an order of their own nor a missing feature shifts the columns."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    recorded = pytest.importorskip("recorded")
    now = recorded._by_name([*reversed(NAMES[1:])])
    assert now([*range(len(NAMES) - 1)]).tolist() == [0, *reversed(range(len(NAMES) - 1))]
    with pytest.raises(ValueError, match="no price: gone"):
        recorded._by_name([*NAMES, "gone"])
