"""The fit: non-negative, near its prior without data, and right with enough of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.core.ranks import rank_correlation
from edgeopt.estimate.gain import Gain
from edgeopt.estimate.regression import fit
from edgeopt.estimate.work import NAMES


@given(st.integers(0, 10_000))
def test_factors_are_never_negative(seed: int):
    """Whatever is told."""
    generator = np.random.default_rng(seed)
    rows, values = generator.random((5, 8)), generator.normal(size=5)
    assert (fit(rows, values, prior=1.0, noise=0.05).factors >= 0).all()


def test_without_trials_the_prior_speaks():
    """All factors are 1."""
    found = fit(np.zeros((0, 3)), np.zeros(0), prior=1.0, noise=0.1)
    assert found.factors == pytest.approx([1, 1, 1])


def test_with_many_trials_the_truth_is_found():
    """Factors far from the prior are recovered from noisy values, a zero one too."""
    generator = np.random.default_rng(0)
    true = np.array([0.2, 3.0, 0.0, 1.0])
    rows = generator.random((200, 4))
    values = rows @ true + 0.01 * generator.normal(size=200)
    found = fit(rows, values, prior=1.0, noise=0.01)
    assert found.factors == pytest.approx(true, abs=0.02)


def test_ranks():
    """Monotone is 1, reversed is -1, a constant says nothing, ties count half."""
    x = np.array([1.0, 2.0, 5.0, 9.0])
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)
    assert rank_correlation(x, np.ones(4)) is None
    assert rank_correlation(x[:2], x[:2]) is None
    assert rank_correlation(x, np.array([1.0, 1.0, 2.0, 3.0])) == pytest.approx(0.9487, abs=1e-4)


def test_the_baseline_is_predicted_as_it_is():
    """Before anything is measured, and after measurements that the prior did not expect."""
    baseline = np.arange(1.0, len(NAMES) + 1)
    gain = Gain(baseline)
    assert gain.predict(baseline).mean == pytest.approx(0, abs=1e-9)
    for scale in (0.5, 0.7):
        gain.learn(baseline * scale, scale)
    assert gain.predict(baseline).mean == pytest.approx(0, abs=0.01)


def test_it_learns_that_a_border_is_dear():
    """After trials in which crossing into integers cost much, it is predicted to cost much; what
    was predicted before each of them is kept and ranked."""
    generator = np.random.default_rng(1)
    baseline = np.zeros(len(NAMES))
    baseline[NAMES.index("conv_float")] = 100.0
    gain = Gain(baseline)
    entering, conv = NAMES.index("entering"), NAMES.index("conv_int")

    def work(share: float, crossing: float):
        made = baseline * (1 - share)
        made[conv], made[entering] = 100 * share, crossing
        return made

    before = gain.predict(work(0.5, 3.0)).mean
    for _ in range(16):
        share, crossing = generator.random(), 4 * generator.random()
        gain.learn(work(share, crossing), 1 - 0.7 * share + 0.3 * crossing)
    after = gain.predict(work(0.5, 3.0))
    assert after.mean == pytest.approx(-0.35 + 0.9, abs=0.05)
    assert after.mean > before + 0.5
    assert gain.count == 16
    assert gain.rank_correlation > 0.5
