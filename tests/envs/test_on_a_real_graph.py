"""Strategies and environment on the real space: the digits net and its data."""

import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from edgeopt import envs
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.plugins import STRATEGIES
from edgeopt.testing import environment_exam
from edgeopt.testing.toy_space import OBJECTIVES
from edgeopt.transforms.base import Offer
from edgeopt.transforms.space import GraphSpace

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits"
CPU = DeviceProfile(
    name="cpu", title="a CPU", architecture="x86_64", quantization=QuantizationTypes()
)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory):
    """Everything that can be done to the digits net on a CPU."""
    subject = open_subject(
        DIGITS / "digits.onnx",
        data=str(DIGITS / "digits.npz"),
        metric=None,
        seed=0,
        progress=lambda _: None,
    )
    with Workspace.open(tmp_path_factory.mktemp("store")) as workspace:
        workshop = workshop_for(subject, workspace, 21)
        runtimes = [RuntimeSettings(threads=count) for count in (2, 4)]
        yield GraphSpace(workshop, Offer(profile=CPU), runtimes=runtimes)


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_a_strategy_proposes_recipes_that_build(name: str, space: GraphSpace):
    """Up to ten candidates, all different, each of a recipe that decoding made from the graph."""
    if name == "rl_mlp":
        pytest.importorskip("stable_baselines3", reason="the extra rl is not installed")
    strategy = STRATEGIES.load(name)(space, seed=0, objectives=OBJECTIVES)
    found = strategy.ask(10)
    assert len({candidate.key for candidate in found}) == len(found)
    # What was asked teaches before more is asked.
    modelled = {"planner": 3, "portfolio": 3, "rl": 3, "rl_group": 3, "rl_mlp": 2}
    assert len(found) == {"runtime": 2, "static": 1, **modelled}.get(name, 10)
    assert all(c.recipe.baseline == space.empty().baseline for c in found)


@pytest.mark.parametrize(
    "part",
    [
        environment_exam.passes_the_checker,
        environment_exam.masks_are_true,
        environment_exam.is_deterministic,
        environment_exam.rewards_telescope,
        environment_exam.fork_has_the_same_future,
        environment_exam.undo_restores,
        environment_exam.state_reads_back,
    ],
    ids=lambda part: part.__name__,
)
def test_the_environment_takes_its_exam(part, space: GraphSpace):
    """The same exam as on the toy, on graphs that are really rewritten."""
    part(lambda: envs.make(space, envs.StaticCostEvaluator(space), max_actions=32, max_steps=8))


@pytest.mark.parametrize("name", [envs.ID, envs.FLAT_ID])
def test_gymnasium_makes_it_and_checks_it_without_copying_graphs(name: str, space: GraphSpace):
    """By its id, on a space that cannot be copied; its checker makes it again from its spec."""
    reward = {} if name == envs.ID else {"reward": envs.FlatReward(latency="macs")}
    env = gymnasium.make(
        f"edgeopt.envs:{name}",
        space=space,
        evaluator=envs.StaticCostEvaluator(space),
        max_steps=3,
        **reward,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    again = env.spec.make(max_steps=5).unwrapped
    assert again._space is env.unwrapped._space
    assert (again._max_steps, env.unwrapped._max_steps) == (5, 3)


def test_pruning_pays(space: GraphSpace):
    """The reward vector is what the graph says: fewer multiplications, fewer bytes."""
    env = envs.make(space, envs.StaticCostEvaluator(space))
    env.reset(seed=0)
    slot = 2 + [a.transform for a in env.slot_actions()].index("channels_greedy")
    _, _, _, _, info = env.step(slot)
    cost, start = space.static_cost, space.empty()
    pruned = Recipe.parse(env.state)
    expected = [
        1 - cost(pruned)[metric] / cost(start)[metric]
        for metric in ("macs", "size_bytes", "activation_bytes")
    ]
    assert np.allclose(info["vector_reward"], expected)
    assert info["vector_reward"][0] > 0


def test_the_flat_environment_changes_real_graphs(space: GraphSpace):
    """Random pairs: each that succeeds gives another graph that builds, and costs as it counts."""
    reward = envs.FlatReward(latency="macs")
    env = envs.make_flat(space, envs.StaticCostEvaluator(space), reward=reward, max_steps=12)
    generator = np.random.default_rng(1)
    env.reset(seed=0)
    seen = {env.recipe.digest}
    for _ in range(12):
        env.step(generator.integers([4, len(env.layers)]))
        seen.add(env.recipe.digest)
    assert len(seen) > 1
    assert env.costs["macs"] == space.static_cost(env.recipe)["macs"]
