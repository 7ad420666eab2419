"""The toy is a space as the real one is: what tests of search and environments lean on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.core.action import Action
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure
from edgeopt.core.protocols import Space
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

SPACE = ToySpace(sites=4, rewrites=4)
rows = st.tuples(*(st.integers(0, len(choice) - 1) for choice in SPACE.choices))


def test_it_is_a_space():
    """Every verb of the protocol is there."""
    assert isinstance(SPACE, Space)


@settings(max_examples=40, deadline=None)
@given(rows)
def test_legal_is_what_then_accepts(row):
    """No more, no less, without duplicates."""
    recipe = SPACE.decode(row)
    legal = SPACE.legal(recipe)
    assert len(set(legal)) == len(legal)
    offered = {a for c in SPACE.choices for alternative in c.alternatives for a in alternative}
    for action in offered:
        assert isinstance(SPACE.then(recipe, action), str) == (action not in legal)


@settings(max_examples=40, deadline=None)
@given(rows)
def test_arrays_are_padded_and_finite(row):
    """The same shapes for every recipe."""
    arrays, first = SPACE.observe(SPACE.decode(row)), SPACE.observe(SPACE.empty())
    assert {k: (a.shape, a.dtype) for k, a in arrays.items()} == {
        k: (a.shape, a.dtype) for k, a in first.items()
    }
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_a_rewrite_unlocks_another():
    """The second is legal after the first only."""
    first, second = Action.of("toy_rewrite", "r0"), Action.of("toy_rewrite", "r1")
    assert isinstance(SPACE.then(SPACE.empty(), second), str)
    assert second in SPACE.legal(SPACE.empty().then(first))


def test_what_does_not_apply_is_left_out():
    """Hard pruning and int4 exclude each other: the recipe says what was done."""
    names = [choice.name for choice in SPACE.choices]
    codes = [0] * len(names)
    codes[names.index("prune:s0")], codes[names.index("quantize:s0")] = 2, 3
    assert [a.transform for a in SPACE.decode(codes).actions] == ["toy_prune"]


def test_codes_that_index_nothing_are_refused():
    """Too few, or out of range."""
    with pytest.raises(ValueError, match="shorter"):
        SPACE.decode([0])
    with pytest.raises(ValueError, match="no alternative"):
        SPACE.decode([9] * len(SPACE.choices))


def test_the_device_answers_the_same_in_any_order():
    """Noise belongs to the candidate, so that two searches see the same world."""
    device = ToyDevice(SPACE, seed=3)
    candidates = [candidate for _, candidate in SPACE.standard()]
    forward, backward = device.measure(candidates), device.measure(candidates[::-1])[::-1]
    assert [t.outcome for t in forward] == [t.outcome for t in backward]


def test_the_device_fails_some_but_never_the_baseline():
    """With a share of 1 everything else fails."""
    trials = ToyDevice(SPACE, failing=1.0).measure([c for _, c in SPACE.standard()])
    assert [isinstance(t.outcome, Failure) for t in trials] == [False, True, True]


def test_objectives_have_values():
    """The trials know what the toy's objectives ask for."""
    (trial,) = ToyDevice(SPACE).measure([Candidate(recipe=SPACE.empty())])
    assert all(objective.cost(trial) is not None for objective in OBJECTIVES)
