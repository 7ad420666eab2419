"""Dominance and the front: order does not matter, ties stay, noise does not decide."""

from dataclasses import replace

import numpy as np
from core_trials import failed, trial
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgeopt.core.front import cost_matrix, dominates, front_of, non_dominated, strongest
from edgeopt.core.measurement import Measurement
from edgeopt.core.objective import Objective

OBJECTIVES = (Objective(metric="latency"), Objective(metric="accuracy", direction="max"))
grid = st.integers(0, 3).map(float) | st.sampled_from([float("inf"), -0.0, 0.5])
vectors = st.tuples(grid, grid, grid)
tables = hnp.arrays(np.float64, st.tuples(st.integers(0, 25), st.just(3)), elements=grid)


@given(vectors)
def test_nothing_dominates_itself(a):
    """Irreflexive."""
    assert not dominates(a, a)


@given(vectors, vectors)
def test_dominance_goes_one_way(a, b):
    """Asymmetric."""
    assert not (dominates(a, b) and dominates(b, a))


@given(vectors, vectors, vectors)
def test_dominance_is_transitive(a, b, c):
    """With the two above: a strict partial order, so that a front does not depend on order."""
    if dominates(a, b) and dominates(b, c):
        assert dominates(a, c)


@settings(deadline=None)
@given(tables)
def test_the_fast_mask_is_the_naive_one(costs):
    """Broadcasting and the definition agree, infinities and equal rows included."""
    naive = [not any(dominates(other, row) for other in costs) for row in costs]
    assert non_dominated(costs).tolist() == naive


def test_a_mask_of_nothing_is_empty():
    """No rows, no members."""
    assert non_dominated(np.zeros((0, 3))).shape == (0,)


values = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(values, st.randoms(use_true_random=False))
def test_the_front_is_the_same_for_any_order(rows, random):
    """Trials arrive from several devices and workers in any order."""
    trials = [
        trial(i, actions=n, latency=float(x), accuracy=y / 5) for i, (x, y, n) in enumerate(rows)
    ]
    front = front_of(trials, OBJECTIVES, "d")
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert front_of(shuffled, OBJECTIVES, "d") == front


@settings(max_examples=60, deadline=None)
@given(values)
def test_front_members_are_exactly_what_nothing_dominates(rows):
    """Every trial is a member, dominated, or equal to a member with no longer recipe."""
    trials = [
        trial(i, actions=n, latency=float(x), accuracy=y / 5) for i, (x, y, n) in enumerate(rows)
    ]
    members = front_of(trials, OBJECTIVES, "d").members
    costs = cost_matrix(trials, OBJECTIVES)
    inside = {t.number for t in members}
    for one, row in zip(trials, costs, strict=True):
        better = any(dominates(other, row) for other in costs)
        equal = [m for m in members if tuple(cost_matrix([m], OBJECTIVES)[0]) == tuple(row)]
        assert better == (not equal)
        assert len(equal) <= 1
        if equal and one.number not in inside:
            mine, kept = one.candidate.recipe.actions, equal[0].candidate.recipe.actions
            assert (len(kept), equal[0].number) < (len(mine), one.number)


def test_failures_invalid_and_other_devices_stay_out():
    """A number in a front is a usable measurement of the device it names."""
    good = trial(0, latency=2.0, accuracy=0.9)
    others = [
        failed(1),
        trial(2, latency=1.0, accuracy=0.95, status="invalid"),
        trial(3, latency=1.0, accuracy=0.95, device="other"),
        trial(4, latency=float("nan"), accuracy=0.99),
    ]
    assert front_of([good, *others], OBJECTIVES, "d").members == (good,)


def test_suspect_trials_stay_in():
    """They are shown with their reasons."""
    found = front_of([trial(0, latency=2.0, accuracy=0.9, status="suspect")], OBJECTIVES, "d")
    assert len(found.members) == 1


def test_bounds_are_kept():
    """What is worse than the bound is infeasible, whichever way the objective goes."""
    bounded = (
        replace(OBJECTIVES[0], bound=5.0),
        replace(OBJECTIVES[1], bound=0.8),
    )
    trials = [
        trial(0, latency=5.0, accuracy=0.8),
        trial(1, latency=5.1, accuracy=0.99),
        trial(2, latency=1.0, accuracy=0.79),
    ]
    assert [t.number for t in front_of(trials, bounded, "d").members] == [0]


def test_an_objective_that_nothing_has_is_dropped_with_its_reason():
    """Absent with a reason, never padded."""
    one = trial(0, latency=2.0, accuracy=0.9)
    assert isinstance(one.outcome, Measurement)
    one = replace(one, outcome=replace(one.outcome, absent={"energy": "no sensor"}))
    front = front_of([one], (*OBJECTIVES, Objective(metric="energy")), "d")
    assert front.dropped == (("energy", "no sensor"),)
    assert front.objectives == OBJECTIVES
    assert front.members == (one,)


def test_the_strongest_protocol_counts_then_the_latest():
    """A finalist measured again replaces its quick value, whatever the order."""
    quick = trial(0, latency=1.0, accuracy=0.9)
    publish = replace(trial(0, latency=1.2, accuracy=0.9), number=7, protocol="publish")
    later = replace(quick, number=9)
    assert strongest([publish, later, quick]) == [publish]
    assert strongest([quick, later]) == [later]


def test_members_tie_where_intervals_of_latency_meet():
    """Two of them cannot be told apart; the third is clearly slower."""
    trials = [
        trial(0, latency=1.0, accuracy=0.90),
        trial(1, latency=1.015, accuracy=0.91),
        trial(2, latency=2.0, accuracy=0.92),
    ]
    front = front_of(trials, OBJECTIVES, "d")
    assert front.ties(trials[0]) == (trials[1],)
    assert front.ties(trials[2]) == ()


def test_an_empty_front_has_an_empty_matrix():
    """No trials, no members, no error."""
    front = front_of([], OBJECTIVES, "d")
    assert front.members == ()
    assert [metric for metric, _ in front.dropped] == ["latency", "accuracy"]
