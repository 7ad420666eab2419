"""`rl_mlp`, and the plan view of a space that it learns on."""

from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from edgeopt.errors import UsageError
from edgeopt.plugins import STRATEGIES
from edgeopt.search.assigned import Assigned, PlanCosts
from edgeopt.search.codes import starting
from edgeopt.search.plan_moves import GROUP_COLUMNS, MOVE_COLUMNS
from edgeopt.search.table import Table
from edgeopt.testing import strategy_exam
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

PARTS = [
    strategy_exam.keeps_count_and_never_repeats,
    strategy_exam.proposes_valid_recipes,
    strategy_exam.is_deterministic,
    strategy_exam.goes_on_after_a_kill,
    strategy_exam.survives_failures_and_strangers,
    strategy_exam.lives_without_choices,
]


def table_of(space: ToySpace) -> Table:
    """Numbers that differ everywhere, with a border between two choices."""
    count = iter(range(1, 1000))
    cost = tuple(tuple(-next(count) / 1e3 * (k > 0) for k in range(len(c))) for c in space.choices)
    hurt = tuple(tuple(next(count) / 1e5 * (k > 0) for k in range(len(c))) for c in space.choices)
    return Table(cost, hurt, {(4, 5): 0.25})


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_exam_with_short_rollouts(part):
    """The shelf's exam; rollouts of 64 steps in place of 2048."""
    pytest.importorskip("stable_baselines3", reason="the extra rl is not installed")
    part(partial(STRATEGIES.load("rl_mlp"), rollout=64, every=16))


def test_what_was_measured_is_what_the_next_rollout_pays():
    """Measured rows count with their own values; a failed one teaches neither good nor bad."""
    pytest.importorskip("stable_baselines3", reason="the extra rl is not installed")
    space = ToySpace(sites=4)
    strategy = STRATEGIES.load("rl_mlp")(space, seed=0, objectives=OBJECTIVES, rollout=64, every=16)
    device = ToyDevice(space, failing=0.5, seed=3)
    trials = []
    for _ in range(4):
        trials += device.measure(strategy.ask(5), start=len(trials))
        strategy.tell(trials[-5:])
    strategy._queue.clear()
    strategy.ask(1)
    _, costs, policy = strategy._learning
    failed = [trial for trial in trials if trial.measurement is None]
    assert failed
    assert len(costs.known) == len(trials) - len(failed)
    assert all(np.isfinite(row).all() for row in costs.known.values())
    assert policy.steps >= 64


@pytest.mark.skipif(
    find_spec("stable_baselines3") is not None, reason="the extra rl is installed here"
)
def test_without_the_extra_it_says_how_to_install_it():
    """A sentence and a command, before anything is measured."""
    with pytest.raises(UsageError) as told:
        STRATEGIES.load("rl_mlp")(ToySpace(), seed=0, objectives=OBJECTIVES)
    assert "edgeopt[rl]" in str(told.value.hint)


def test_plans_cost_what_the_table_says():
    """Alternatives alone, and a pair where both are on."""
    space = ToySpace(sites=4)
    plans, table = Assigned(space), table_of(space)
    plans.use(table)
    generator = np.random.default_rng(0)
    for _ in range(20):
        row = [int(generator.integers(len(choice))) for choice in space.choices]
        latency, _, drop = PlanCosts(plans).costs(plans.decode(row))
        assert latency == pytest.approx(1 + table.cost_of(tuple(row)))
        assert drop == pytest.approx(table.damage_of(tuple(row)))


def test_figures_are_exact_where_alternatives_do_not_meet():
    """One alternative over everything exact: as the space counts it, size in the costs too."""
    space = ToySpace(sites=4)
    plans = Assigned(space)
    for i, choice in enumerate(space.choices):
        for k in range(len(choice)):
            row = [starting(c) for c in space.choices]
            row[i] = k
            wanted = space.static_cost(space.decode(row))
            plan = plans.decode(row)
            assert plans.static_cost(plan)["size_bytes"] == pytest.approx(wanted["size_bytes"])
            given = space.static_cost(space.empty())["size_bytes"]
            assert PlanCosts(plans).costs(plan)[1] == pytest.approx(wanted["size_bytes"] / given)


def test_predicted_changes_are_what_moves_then_change():
    """Every row of `action_x`, moves of many included, against the costs before and after."""
    space = ToySpace(sites=4)
    plans = Assigned(space)
    plans.use(table_of(space))
    costs = PlanCosts(plans)
    plan = plans.decode([int(i % 5 == 0) for i in range(len(space.choices))])
    seen, moves = plans.observe(plan), plans.legal(plan)
    assert seen["action_x"].shape == (len(moves), len(MOVE_COLUMNS))
    assert seen["group_x"].shape == (len(space.choices), len(GROUP_COLUMNS))
    for row, move in zip(seen["action_x"], moves, strict=True):
        after = plans.then(plan, move)
        assert not isinstance(after, str)
        if costs.costs(after)[1] <= 0.01:
            continue  # sums of sizes have a floor; a change alone does not know it
        assert row[-3:] == pytest.approx(costs.costs(after) - costs.costs(plan), abs=1e-6)


def test_moves_set_take_back_and_set_many():
    """One choice, back again, and the half of a family that hurts least."""
    space = ToySpace(sites=4)
    plans = Assigned(space)
    plans.use(table_of(space))
    plan = plans.empty()
    by_text = {move.text: move for move in plans.legal(plan)}
    one = plans.then(plan, by_text['assign@1 "prune:s1" to=2'])
    assert [a.text for a in plans.real(one).actions] == ['toy_prune@1 "s1" keep=0.5']
    back = next(m for m in plans.legal(one) if m.site == "prune:s1" and m.get("to", -1) == 0)
    assert plans.then(one, back) == plan
    half = plans.then(one, by_text['assign_many@1 "prune" share=0.5 to=1'])
    codes = dict(zip([c.name for c in space.choices], plans.codes(half), strict=True))
    assert [codes[f"prune:s{i}"] for i in range(4)] == [1, 1, 0, 0]


def test_a_plan_is_read_from_any_recipe_that_codes_can_say():
    """Recipes of the real space are plans too; what no choice offers is refused."""
    space = ToySpace(sites=4)
    plans = Assigned(space)
    for _, candidate in space.standard():
        assert space.decode(plans.codes(candidate.recipe)) == candidate.recipe
    from edgeopt.core.action import Action

    with pytest.raises(UsageError, match="no choice"):
        plans.codes(space.empty().then(Action.of("whole_tool", "*")))
