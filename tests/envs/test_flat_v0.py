"""`EdgeOptFlat-v0` on the toy space: what an operation does, what it pays, and that it learns."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from edgeopt import envs
from edgeopt.envs.flat_v0 import FEATURES, FUSE, PRUNE, QUANTIZE, SKIP, TERMINATE, FlatReward
from edgeopt.errors import ConnectionLostError, EdgeOptError, InconclusiveError, UsageError
from edgeopt.testing.toy_space import ToySpace

REWARD = FlatReward(latency="macs", energy="activation_bytes")
FUSIONS = ("toy_rewrite",)


def make(space=None, **options) -> envs.EdgeOptFlatEnv:
    found = space or ToySpace(sites=5)
    options = {"reward": REWARD, "fusions": FUSIONS, **options}
    return envs.make_flat(found, envs.StaticCostEvaluator(found), **options)


def act(env, operation, site="s0"):
    return env.step(np.array([operation, env.layers.index(site)]))


class Judged:
    """An evaluator that knows latency, energy and accuracy, by what the recipe holds."""

    deterministic = True
    metrics = ("latency", "energy", "accuracy_drop")

    def costs(self, recipe):
        quantized = sum(a.transform == "toy_quantize" for a in recipe.actions)
        pruned = sum(a.transform == "toy_prune" for a in recipe.actions)
        return np.array([2.0 - 0.2 * quantized - 0.4 * pruned, 8.0 - quantized, 0.006 * pruned])


def test_gymnasium_accepts_it():
    """Its own checker, without a warning, on both ways of making one."""
    space = ToySpace(sites=4)
    evaluator = envs.StaticCostEvaluator(space)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make())
        made = gymnasium.make(
            "edgeopt.envs:EdgeOptFlat-v0",
            space=space,
            evaluator=evaluator,
            reward=REWARD,
            fusions=FUSIONS,
        )
        made.reset(seed=0)
        made.close()


def test_seventeen_features_ten_actions_and_the_steps():
    """The published observation: what it holds, and where."""
    env = make()
    observation, _ = env.reset(seed=0)
    assert len(FEATURES) == 17
    assert observation.shape == (17 + 20 + 3,)
    assert (observation[17:37] == -1).all()
    after, *_ = act(env, PRUNE, env.layers[-1])
    assert after[17:19].tolist() == pytest.approx([PRUNE / 4, 1.0])
    assert after[FEATURES.index("pruned")] > 0
    assert after[FEATURES.index("macs")] < 1


@pytest.mark.parametrize(
    ("operation", "transform", "site"),
    [(QUANTIZE, "toy_quantize", "s0"), (PRUNE, "toy_prune", "s0"), (FUSE, "toy_rewrite", "r0")],
)
def test_an_operation_changes_the_model(operation, transform, site):
    """Another recipe, with that action at that layer; again takes the next alternative."""
    env = make()
    env.reset(seed=0)
    act(env, operation, site)
    assert [(a.transform, a.site) for a in env.recipe.actions] == [(transform, site)]
    first = env.recipe
    *_, info = act(env, operation, site)
    assert (env.recipe != first) or "failed" in info


def test_what_cannot_be_done_fails():
    """No choice there, no further alternative, not applicable: nothing changes, the penalty."""
    env = make(reward=FlatReward(latency="macs", penalty=0.125))
    env.reset(seed=0)
    for _ in range(2):
        act(env, PRUNE)
    before = env.recipe
    for operation, site in [(PRUNE, "s0"), (QUANTIZE, "r0"), (FUSE, "r1")]:
        observation, reward, *_, info = act(env, operation, site)
        assert info["failed"]
        assert reward == -0.125
        assert observation[-1] == 1
        assert env.recipe == before


def test_skipping_changes_nothing_and_is_free():
    """The layer is left as it is."""
    env = make()
    env.reset(seed=0)
    observation, reward, terminated, _, info = act(env, SKIP)
    assert (reward, terminated, observation[-1]) == (0.0, False, 0.0)
    assert "failed" not in info


def test_the_reward_is_the_formula():
    """alpha, beta, gamma at their costs, and the bonus within the bound only."""
    space = ToySpace(sites=5)
    weights = FlatReward(alpha=1.0, beta=0.5, gamma=4.0, bonus=0.25, allowed_drop=0.01)
    env = envs.make_flat(space, Judged(), reward=weights, fusions=FUSIONS)
    env.reset(seed=0)
    assert act(env, QUANTIZE)[1] == pytest.approx(0.2 / 2 + 0.5 / 8)
    assert act(env, PRUNE)[1] == pytest.approx(0.4 / 2 - 4 * 0.006)
    assert act(env, TERMINATE)[1] == pytest.approx(0.25)
    env.reset(seed=0)
    for site in ("s0", "s1"):
        act(env, PRUNE, site)
    assert act(env, TERMINATE)[1] == 0.0


def test_nothing_gained_is_no_bonus():
    """An episode that ends at once has improved nothing."""
    env = make()
    env.reset(seed=0)
    _, reward, terminated, truncated, _ = act(env, TERMINATE)
    assert (reward, terminated, truncated) == (0.0, True, False)
    with pytest.raises(UsageError, match="has ended"):
        act(env, SKIP)


def test_energy_that_nobody_measures_is_absent():
    """It is no zero and no share of the latency: it is named, and its term is not there."""
    env = make(reward=FlatReward(latency="macs"))
    _, info = env.reset(seed=0)
    assert info["absent"] == ("energy", "accuracy_drop")
    assert "energy" not in env.costs


def test_it_is_truncated_in_time():
    """After `max_steps`, whatever was done."""
    env = make(max_steps=3)
    env.reset(seed=0)
    ends = [act(env, SKIP)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_cost_that_is_missing_is_told():
    """The name and those that there are."""
    with pytest.raises(UsageError) as told:
        make(reward=FlatReward(latency="lateness"))
    assert "macs" in str(told.value.hint)


def test_a_space_without_layers_is_refused():
    """Without data nothing can be quantized or pruned."""
    with pytest.raises(UsageError, match="no layer"):
        make(ToySpace(sites=0, rewrites=0))


def test_random_episodes_stay_inside():
    """Observations are in their space, and a return is the sum of what the costs gained."""
    env = make(max_steps=30)
    generator = np.random.default_rng(3)
    env.reset(seed=0)
    start = env.costs
    for episode in range(40):
        env.reset(seed=episode)
        ended, total = False, 0.0
        while not ended:
            action = generator.integers([4, len(env.layers)])
            observation, reward, terminated, truncated, info = env.step(action)
            assert env.observation_space.contains(observation)
            total += reward + REWARD.penalty * ("failed" in info)
            ended = terminated or truncated
        saved = {name: 1 - env.costs[name] / start[name] for name in ("macs", "activation_bytes")}
        expected = REWARD.alpha * saved["macs"] + REWARD.beta * saved["activation_bytes"]
        assert total == pytest.approx(expected + REWARD.bonus * (saved["macs"] > 0), abs=1e-9)


class Lost(Judged):
    """Pruning cannot be measured."""

    def __init__(self, error: EdgeOptError) -> None:
        self.error = error

    def costs(self, recipe):
        if any(a.transform == "toy_prune" for a in recipe.actions):
            raise self.error
        return super().costs(recipe)


def test_an_unreachable_device_is_no_reward():
    """Truncated where it stood, without reward, penalty or bonus; raises when it stays away."""
    env = envs.make_flat(ToySpace(sites=5), Lost(ConnectionLostError("away")), fusions=FUSIONS)
    env.reset(seed=0)
    act(env, QUANTIZE)
    for _ in range(2):
        before = env.recipe
        _, reward, terminated, truncated, info = act(env, PRUNE)
        assert (reward, terminated, truncated, info["unknown"]) == (0.0, False, True, "away")
        assert env.recipe == before
        env.reset(seed=0)
    for _ in range(2):
        with pytest.raises(ConnectionLostError):
            act(env, PRUNE)
    observation, *_ = act(env, SKIP)
    assert observation[[17, 19]].tolist() == [SKIP / 4, -1.0]
    assert observation[37] == pytest.approx(1 / 50)


def test_a_killed_child_teaches_nothing():
    """Truncated where it stood: no reward, no penalty, no bonus, and it says why."""
    env = envs.make_flat(ToySpace(sites=5), Lost(InconclusiveError("killed")), fusions=FUSIONS)
    env.reset(seed=0)
    act(env, QUANTIZE)
    before = env.recipe
    _, reward, terminated, truncated, info = act(env, PRUNE)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["unknown"] == "killed"
    assert "failed" not in info
    assert env.recipe == before
