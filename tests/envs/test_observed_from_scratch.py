"""Whatever was done before, a plan is observed as if the environment had just been made."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt import envs
from edgeopt.search.assigned import Assigned, PlanCosts
from edgeopt.search.table import Table
from edgeopt.testing.environment_exam import equal
from edgeopt.testing.toy_space import ToySpace

PREFERENCE = {"preference": [0.5, 0.3, 0.2]}
DOES = st.tuples(
    st.sampled_from(["step", "step", "step", "undo", "fork", "set_state", "replay"]),
    st.integers(0, 10_000),
)


def table(seed: int) -> Table:
    """Random numbers, with pairs inside a family and across families, in either order."""
    space, generator = ToySpace(sites=3), np.random.default_rng(seed)
    count = len(space.choices)

    def rows(scale: float):
        drawn = [scale * generator.random(len(choice)) for choice in space.choices]
        return tuple(tuple(map(float, row * (np.arange(len(row)) > 0))) for row in drawn)

    pairs = generator.integers(count, size=(8, 2)).tolist()
    both = {(i, j): float(generator.normal(0, 0.05)) for i, j in pairs if i != j}
    single = {pair: value for pair, value in both.items() if pair[::-1] not in both}
    return Table(rows(-0.05), rows(0.02), single)


def made(seed: int):
    """Too few slots, so that which moves are shown is observed too."""
    plans = Assigned(ToySpace(sites=3))
    plans.use(table(seed))
    env = envs.make(plans, PlanCosts(plans), max_actions=24, max_steps=1000)
    env.reset(seed=0, options=PREFERENCE)
    return plans, env


def from_scratch(seed: int, state: str):
    """The observation of a new space and environment that are set to a state."""
    _, env = made(seed)
    observation = env.set_state(state)
    return {**observation, "actions": tuple(a.text for a in env.slot_actions())}


def seen(env):
    """What an environment shows; steps that are left and what was refused are its history."""
    observation = env._observation()
    return {**observation, "actions": tuple(a.text for a in env.slot_actions())}


def same(found, wanted) -> bool:
    history = {"steps_left", "action_mask", "actions"}
    arrays = [{k: v for k, v in each.items() if k not in history} for each in (found, wanted)]
    return equal(*arrays) and found["actions"] == wanted["actions"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.lists(DOES, min_size=1, max_size=10))
def test_any_way_to_a_plan_shows_the_same(seed, does):
    """Steps, undone steps, forks that go on beside, recipes set and replayed: to the bit."""
    _, env = made(seed)
    others, states = [env], [env.state]
    for what, number in does:
        if what == "step":
            legal = np.flatnonzero(env.action_masks())[1:]
            env.step(legal[number % len(legal)])
        elif what == "undo" and len(env._path) > 1:
            env.undo()
        elif what == "fork":
            others.append(env.fork())
            env = others[number % len(others)]
        elif what == "set_state":
            env.set_state(states[number % len(states)])
        elif what == "replay":
            env.replay(env.recipe.actions)
        states.append(env.state)
        assert same(seen(env), from_scratch(seed, env.state))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_predicted_changes_hold_with_pairs_across_families(seed, drawn):
    """Every row of `action_x` against the costs before and after, by summing all of a plan."""
    plans, _ = made(seed)
    costs, generator = PlanCosts(plans), np.random.default_rng(drawn)
    plan = plans.decode([int(generator.integers(len(choice))) for choice in plans.choices])
    before = costs.costs(plan)
    rows = plans.observe(plan)["action_x"][:, -3:]
    for row, move in zip(rows, plans.legal(plan), strict=True):
        after = costs.costs(plans.then(plan, move))
        if min(after[1], before[1]) > 0.01:  # the floor, of which a move of one does not know
            assert row == pytest.approx(after - before, abs=1e-6)


def test_another_table_is_seen_at_once():
    """Moves of many, predictions and costs follow it; nothing of the first one is kept."""
    plans, env = made(1)
    env.step(4)
    before = seen(env)
    plans.use(table(2))
    assert same(seen(env), {**from_scratch(2, env.state), "costs": before["costs"]})
    assert not np.array_equal(before["action_x"], seen(env)["action_x"])
