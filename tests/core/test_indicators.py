"""Hypervolume against closed forms, and the knee."""

import numpy as np
import pytest
from core_trials import trial
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgeopt.core.front import front_of
from edgeopt.core.indicators import hypervolume, knee
from edgeopt.core.objective import Objective

OBJECTIVES = (Objective(metric="latency"), Objective(metric="size"))
unit = st.floats(0, 1, width=32)
tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(3)), elements=unit)
ONE = np.ones(3)


@pytest.mark.parametrize("steps", [1, 2, 5, 50])
def test_a_staircase(steps: int):
    """Points (i, n - i) / n for i in 0..n with reference 1: the area is (n - 1) / 2n."""
    points = np.array([[i / steps, 1 - i / steps] for i in range(steps + 1)])
    assert hypervolume(points, np.ones(2)) == pytest.approx((steps - 1) / (2 * steps))


@given(hnp.arrays(np.float64, 3, elements=unit))
def test_one_point_is_a_box(point):
    """The product of the distances to the reference."""
    assert hypervolume(point[None], ONE) == pytest.approx(np.prod(1 - point))


@settings(deadline=None)
@given(tables)
def test_more_points_never_take_volume_away(costs):
    """Monotone; duplicates and dominated points add nothing; order does not matter."""
    whole = hypervolume(costs, ONE)
    assert whole >= hypervolume(costs[:-1], ONE) - 1e-12
    again = np.concatenate([costs[::-1], costs, (costs + ONE) / 2])
    assert hypervolume(again, ONE) == pytest.approx(whole)


@settings(deadline=None)
@given(tables, hnp.arrays(np.float64, 3, elements=st.floats(0.25, 4)))
def test_volume_scales_with_the_axes(costs, factors):
    """Units of an objective do not change which front is larger."""
    scaled = hypervolume(costs * factors, factors)
    assert scaled == pytest.approx(hypervolume(costs, ONE) * np.prod(factors), abs=1e-9)


def test_points_outside_of_the_reference_add_nothing():
    """On it, beyond it, infinite or not a number."""
    outside = [[1, 0], [0, 1], [2, 0.1], [np.inf, 0], [np.nan, 0], [-np.inf, 0]]
    costs = np.array([[0.5, 0.5], *outside])
    assert hypervolume(costs, np.ones(2)) == pytest.approx(0.25)
    assert hypervolume(costs[1:], np.ones(2)) == 0.0
    assert hypervolume(np.zeros((0, 2)), np.ones(2)) == 0.0


def test_the_knee_is_where_the_front_bends():
    """Nearest to the ideal point after scaling, whatever the units."""
    trials = [
        trial(0, latency=1.0, size=1e6),
        trial(1, latency=1.2, size=2e5),
        trial(2, latency=3.0, size=1e5),
    ]
    assert knee(front_of(trials, OBJECTIVES, "d")) == trials[1]


def test_a_knee_of_few_members():
    """None has none; one is its own; an objective without spread does not divide by zero."""
    assert knee(front_of([], OBJECTIVES, "d")) is None
    only = trial(0, latency=1.0, size=1.0)
    assert knee(front_of([only], OBJECTIVES, "d")) == only
