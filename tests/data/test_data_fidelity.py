"""Fidelity to the given model's outputs: what its number means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgeopt.data.accuracy.fidelity import Fidelity, fidelity
from edgeopt.data.evaluate import Scored
from edgeopt.data.intervals import smallest_decidable_drop

SIGNALS = arrays(np.float32, (2, 3), elements=st.floats(-1e3, 1e3, width=32)).filter(
    lambda y: np.abs(y).max() > 1e-3
)


@pytest.mark.parametrize(("decibels", "value"), [(10, 0.9), (20, 0.99), (30, 0.999)])
def test_one_point_is_20_decibels(decibels: int, value: float) -> None:
    """Noise of a known power, orthogonal to nothing in particular."""
    random = np.random.default_rng(0)
    signal, noise = random.normal(size=(2, 1000))
    noise *= np.sqrt(np.sum(signal**2) / np.sum(noise**2) / 10 ** (decibels / 10))
    assert fidelity(signal + noise, signal) == pytest.approx(value)


@given(SIGNALS, SIGNALS)
def test_it_lies_between_0_and_1_and_is_1_for_equals(y: np.ndarray, y0: np.ndarray) -> None:
    """Whatever the outputs."""
    assert 0 <= fidelity(y, y0) <= 1
    assert fidelity(y0, y0) == 1


@given(SIGNALS, SIGNALS, st.sampled_from([-8.0, -1.0, 0.25, 2.0]))
def test_a_common_scale_changes_nothing(y: np.ndarray, y0: np.ndarray, scale: float) -> None:
    """Powers of two scale without rounding, so the ratio stays."""
    assert fidelity(y * scale, y0 * scale) == pytest.approx(fidelity(y, y0), abs=1e-12)


@given(SIGNALS, SIGNALS, st.floats(0, 1))
def test_less_of_the_same_noise_is_never_worse(y: np.ndarray, y0: np.ndarray, part: float) -> None:
    """Moving the outputs straight towards the reference."""
    nearer = y0 + part * (y.astype(np.float64) - y0)
    assert fidelity(nearer, y0) >= fidelity(y, y0) - 1e-12


@given(SIGNALS)
def test_saying_nothing_is_worth_nothing(y0: np.ndarray) -> None:
    """All zeros: the noise is the signal. The opposite is worse, and clipped."""
    assert fidelity(np.zeros_like(y0), y0) == 0
    assert fidelity(-y0, y0) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_worth_nothing(bad: float) -> None:
    """One of a thousand is enough: a candidate must not overflow."""
    y0 = np.ones(1000, np.float32)
    y = y0.copy()
    y[7] = bad
    assert fidelity(y, y0) == 0
    assert fidelity(y0, y) == 0


def test_a_silent_reference_wants_silence() -> None:
    """No signal power: equal or not."""
    assert fidelity(np.zeros(3), np.zeros(3)) == 1
    assert fidelity(np.array([0, 0, 1e-9]), np.zeros(3)) == 0


def test_large_and_tiny_values_do_not_overflow() -> None:
    """Powers beyond the float range are formed relative to the largest value."""
    for scale in (1e200, 1e-200):
        y0 = np.array([1.0, 2.0]) * scale
        assert fidelity(y0 * 1.1, y0) == pytest.approx(0.99)


def test_the_value_is_the_mean_over_samples_of_the_named_output() -> None:
    """Each sample weighs the same, however large its outputs."""
    metric = Fidelity(output="b")
    quiet, loud = np.ones((1, 4)), np.full((1, 4), 100.0)
    rows = [
        metric.evidence({"a": loud, "b": quiet * 1.1}, None, {"a": quiet, "b": quiet}),
        metric.evidence({"a": quiet, "b": loud}, None, {"a": loud, "b": loud}),
    ]
    assert metric.value(np.concatenate(rows)) == pytest.approx((0.99 + 1) / 2)


def test_few_samples_decide_a_small_drop() -> None:
    """Outputs that are compared with the given model's own differ a little in every sample."""
    metric, count = Fidelity(), 25
    evidence = np.ones((count, 2))
    baseline = Scored(
        evidence=evidence, groups=np.arange(count), value=1.0, right=metric.right(evidence)
    )
    assert 0 < smallest_decidable_drop(metric, baseline) < 0.001


def test_noise_on_top_of_noise_adds_up_in_amplitude() -> None:
    """From 20 dB, as much again: four times the power."""
    found = Fidelity().disturbed(np.array([[0.99, 1.0], [1.0, 1.0], [0.0, 1.0]]), np.full(3, -0.1))
    assert found[:, 0] == pytest.approx([0.96, 0.99, 0.0])
