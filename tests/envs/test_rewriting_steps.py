"""Exact rewrites as steps on a live graph: the exam, and the same bytes after going back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt import envs
from edgeopt.graph.write import to_bytes
from edgeopt.testing import environment_exam
from edgeopt.testing.environment_exam import equal
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.rewriting import Rewriting
from edgeopt.transforms.rules.catalogue import rules_on_shelves

PARTS = [
    environment_exam.masks_are_true,
    environment_exam.rewards_telescope,
    environment_exam.fork_has_the_same_future,
    environment_exam.undo_restores,
    environment_exam.state_reads_back,
]


def graph():
    """Convolutions with batch normalizations behind them, and a spelled sigmoid product."""
    b, value = Builder(), "x"
    for index in range(3):
        b.conv(value, f"c{index}", (4, 4))
        b.batchnorm(f"c{index}", f"n{index}", 4)
        value = b.node("Relu", [f"n{index}"], f"r{index}")
    shape = ("N", 4, 8, 8)
    return opened(b.model([("x", "float32", shape)], [(value, "float32", shape)]))


def space(model) -> Rewriting:
    rules = rules_on_shelves()
    return Rewriting(model, rules, baseline="sha256:" + "0" * 64, nodes=32, edges=64, actions=32)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_the_exam(part):
    """As every environment."""

    def made():
        found = space(graph())
        return envs.make(found, envs.StaticCostEvaluator(found), max_actions=16, max_steps=4)

    part(made)


def test_going_back_gives_the_same_bytes():
    """Every rewrite that there is, then the baseline again."""
    model = graph()
    start, steps = to_bytes(model), space(model)
    recipe = steps.empty()
    while legal := steps.legal(recipe):
        longer = steps.then(recipe, legal[0])
        assert not isinstance(longer, str)
        recipe = longer
    assert recipe.actions
    assert to_bytes(model) != start
    assert steps.legal(steps.empty())
    assert to_bytes(model) == start


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), min_size=1, max_size=8))
def test_a_graph_is_observed_as_if_it_had_just_been_given(does):
    """Rewrites and ways back, in any order: what is kept of nodes is what a new space says."""
    steps = space(graph())
    path = [steps.empty()]
    for forth, number in does:
        legal = steps.legal(path[-1])
        if forth and legal:
            longer = steps.then(path[-1], legal[number % len(legal)])
            path += [] if isinstance(longer, str) else [longer]
        else:
            path = path[: max(len(path) - 1 - number % 2, 1)]
        found, wanted = steps.observe(path[-1]), space(graph())
        assert steps.legal(path[-1]) == wanted.legal(path[-1])
        assert equal(found, wanted.observe(path[-1]))
        assert steps.static_cost(path[-1]) == wanted.static_cost(path[-1])
