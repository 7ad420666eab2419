"""Percentiles that samples can defend, ends of warm-ups, drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.measure.statistics import (
    allowed_over,
    drift,
    median_interval,
    minimum_count,
    settled,
    share_interval,
    tail,
    upper_bound,
)


@pytest.mark.parametrize(("quantile", "count"), [(0.9, 64), (0.97, 219), (0.99, 662)])
def test_minimum_counts_of_early_stopping(quantile: float, count: int) -> None:
    """The counts of MLPerf's rule: with one run fewer no slower run may be allowed."""
    assert minimum_count(quantile) == count
    assert allowed_over(count, quantile) == 1
    assert allowed_over(count - 1, quantile) == 0


@pytest.mark.parametrize(("quantile", "count"), [(0.9, 44), (0.97, 152), (0.99, 459)])
def test_counts_without_a_slower_run(quantile: float, count: int) -> None:
    """The classical distribution-free bound, where no run may be slower."""
    assert allowed_over(count, quantile) == 0
    assert allowed_over(count - 1, quantile) == -1


def test_tail_is_a_binomial_tail() -> None:
    """P(X <= 1) of Binomial(3, 0.1) by hand: 0.9^3 + 3 * 0.1 * 0.9^2."""
    assert tail(3, 1, 0.9) == pytest.approx(0.729 + 0.243)
    assert tail(5, 5, 0.9) == pytest.approx(1.0)


def test_upper_bound_holds_as_often_as_it_says() -> None:
    """In at least 99 % of simulated runs the bound lies above the true quantile."""
    generator = np.random.default_rng(0)
    true = float(np.log(10))  # the 0.9 quantile of the exponential distribution
    bounds = [upper_bound(generator.exponential(size=200).tolist(), 0.9) for _ in range(2000)]
    assert np.mean([bound is not None and bound >= true for bound in bounds]) >= 0.985


def test_no_bound_from_too_few() -> None:
    """63 runs say nothing about the 90th percentile, 64 do."""
    assert upper_bound([1.0] * 63, 0.9) is None
    assert upper_bound([*[1.0] * 63, 2.0], 0.9) == 2.0


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=9))
def test_drift_changes_sign_when_time_runs_backwards(medians: list[float]) -> None:
    """A rise read backwards is a fall, and scaling changes nothing."""
    assert drift(medians) * drift(medians[::-1]) <= 0
    assert drift([3 * each for each in medians]) == pytest.approx(drift(medians))


def test_one_disturbed_block_is_no_drift() -> None:
    """The median of each half: a single outlier among six blocks does not move it."""
    assert drift([1, 1, 1, 1, 2, 1]) == 0
    assert drift([1, 1, 1.2, 1.2]) == pytest.approx(0.2)
    assert drift([1.0]) == 0


def test_a_warm_up_ends_by_evidence() -> None:
    """Only the last two windows count, and one window is no evidence."""
    assert settled([9, 5, 1.0, 1.02], 0.03)
    assert not settled([1.0, 1.0, 1.1], 0.03)
    assert not settled([1.0], 0.5)


def test_an_interval_of_a_few_loads_covers() -> None:
    """Times that scatter by factors: the true median lies inside in nearly 95 of 100 cases."""
    generator = np.random.default_rng(0)
    for count in (3, 4, 6):
        draws = np.exp(generator.normal(0, 0.5, (1000, count)))
        found = [median_interval(row.tolist()) for row in draws]
        assert np.mean([each is not None and each.contains(1.0) for each in found]) >= 0.93
    assert median_interval([1.0, 2.0]) is None


@given(st.integers(1, 500), st.integers(0, 500))
def test_a_share_lies_in_its_interval(count: int, hits: int) -> None:
    """Within 0 and 1, and the mirrored share has the mirrored interval."""
    hits = min(hits, count)
    found, mirrored = share_interval(hits, count), share_interval(count - hits, count)
    assert 0 <= found.low <= hits / count <= found.high <= 1
    assert found.low == pytest.approx(1 - mirrored.high, abs=1e-12)


def test_wilson_by_hand() -> None:
    """5 of 10 with z = 1.96: (0.5 + z²/20 ± z sqrt(0.025 + z²/400)) / (1 + z²/10)."""
    found = share_interval(5, 10)
    assert (found.low, found.high) == pytest.approx((0.2366, 0.7634), abs=1e-4)
