"""`EdgeOpt-v0` on the toy space, with exact costs."""

import gymnasium
import numpy as np
import pytest

from edgeopt import envs
from edgeopt.core.action import Action, Recipe
from edgeopt.errors import UsageError
from edgeopt.testing import environment_exam
from edgeopt.testing.toy_space import ToySpace

PARTS = [
    environment_exam.passes_the_checker,
    environment_exam.masks_are_true,
    environment_exam.is_deterministic,
    environment_exam.rewards_telescope,
    environment_exam.fork_has_the_same_future,
    environment_exam.undo_restores,
    environment_exam.state_reads_back,
    environment_exam.stop_terminates,
    environment_exam.truncates_in_time,
    environment_exam.illegal_actions_change_nothing,
]


def make(space: ToySpace | None = None, **options) -> envs.EdgeOptEnv:
    found = space or ToySpace(sites=6)
    return envs.make(found, envs.StaticCostEvaluator(found), **options)


class Refusing(ToySpace):
    """A space where trying shows what no precondition could: a repair that does not help."""

    def then(self, recipe: Recipe, action: Action) -> Recipe | str:
        if action.transform == "toy_repair" and recipe.actions:
            return "the outputs did not come nearer"
        return super().then(recipe, action)

    def legal(self, recipe: Recipe):
        return ToySpace(sites=self.sites).legal(recipe)


class Noisy:
    """An evaluator as a device is: the same recipe never costs the same twice."""

    deterministic = False
    metrics = ("latency",)

    def __init__(self, bad: str = "") -> None:
        self._generator = np.random.default_rng(0)
        self._bad = bad

    def costs(self, recipe: Recipe):
        if self._bad and any(a.transform == self._bad for a in recipe.actions):
            return np.array([np.inf])
        return np.array([1 + 0.1 * self._generator.random()])


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
@pytest.mark.parametrize(
    "options",
    [{}, {"max_actions": 5, "max_steps": 4}, {"scalarization": "linear", "max_actions": 40}],
    ids=["default", "few slots", "linear"],
)
def test_exam(part, options):
    """The published exam, with all, some and too few slots."""
    part(lambda: make(**options))


def test_random_policy_drives_200_episodes():
    """A masked random policy runs through, and every observation is in its space."""
    env = make(max_steps=12)
    generator = np.random.default_rng(0)
    lengths = []
    for episode in range(200):
        env.reset(seed=episode)
        steps = 0
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(
                environment_exam.masked(env, generator)
            )
            assert np.isfinite(reward)
            assert env.observation_space.contains(observation)
            ended, steps = terminated or truncated, steps + 1
        lengths.append(steps)
    assert max(lengths) == 12
    assert min(lengths) < 12


def test_gymnasium_makes_it_by_its_id():
    """The id that Gymnasium's users write, module included."""
    space = ToySpace()
    env = gymnasium.make(
        "edgeopt.envs:EdgeOpt-v0", space=space, evaluator=envs.StaticCostEvaluator(space)
    )
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)


def test_the_spec_says_whether_costs_repeat():
    """Measured costs do not: the checker must know, or it fails the environment."""
    assert make().spec.nondeterministic is False
    assert envs.make(ToySpace(), Noisy()).spec.nondeterministic is True


def test_measured_costs_pass_the_checker_too():
    """With costs that never repeat, and declared as such."""
    environment_exam.passes_the_checker(lambda: envs.make(ToySpace(), Noisy()))


def test_a_recipe_that_cannot_be_evaluated_is_refused():
    """Infinite costs never become a reward."""
    env = envs.make(ToySpace(), Noisy(bad="toy_quantize"))
    env.reset(seed=0)
    slot = [a.transform for a in env.slot_actions()].index("toy_quantize") + 1
    _, reward, _, _, info = env.step(slot)
    assert info["rejected"]
    assert -1 < reward < 0
    assert not Recipe.parse(env.state).actions


def test_what_turns_out_not_to_apply_is_masked_until_the_recipe_changes():
    """Else a masked policy would try it for ever."""
    env = make(Refusing(sites=6))
    env.reset(seed=0)
    env.step(1 + [a.parameters for a in env.slot_actions()].index((("weight", "int8"),)))
    slot = 1 + [a.transform for a in env.slot_actions()].index("toy_repair")
    state = env.state
    observation, reward, terminated, _, info = env.step(slot)
    assert "nearer" in info["rejected"]
    assert env.state == state
    assert reward < 0
    assert not terminated
    assert not env.action_masks()[slot]
    assert not observation["action_mask"][slot]
    env.step(1)
    assert env.state != state
    again = 1 + [a.transform for a in env.slot_actions()].index("toy_repair")
    assert env.action_masks()[again]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_exam_on_a_space_that_refuses(part):
    """The exam holds where `legal` promises more than `then` keeps."""
    part(lambda: make(Refusing(sites=6)))


def test_legal_actions_of_the_toy_are_never_refused():
    """Where preconditions are complete, a masked policy is never told no."""
    env, generator = make(), np.random.default_rng(0)
    for episode in range(20):
        env.reset(seed=episode)
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(environment_exam.masked(env, generator))
            assert "rejected" not in info
            ended = terminated or truncated


def test_every_family_keeps_slots_when_there_are_too_few():
    """Two rewrites among 54 actions do not drown, and the info says what is hidden."""
    env = make(ToySpace(sites=10, rewrites=2), max_actions=9)
    _, info = env.reset(seed=0)
    shown = [action.transform for action in env.slot_actions()]
    assert len(shown) == 9
    assert set(shown) == {"toy_rewrite", "toy_prune", "toy_quantize"}
    assert info["hidden_actions"] == info["legal_actions"] - 9 > 0


def test_action_rows_stand_at_their_slots():
    """Row i of the observed actions describes slot i; row 0 is STOP's."""
    space = ToySpace(sites=6)
    env = make(space, max_actions=7)
    observation, _ = env.reset(seed=0)
    legal = space.legal(space.empty())
    rows = space.observe(space.empty())["actions"]
    assert not observation["actions"][0].any()
    for slot, action in enumerate(env.slot_actions(), start=1):
        assert np.array_equal(observation["actions"][slot], rows[legal.index(action)])


def test_a_given_preference_is_used():
    """Who cares for size alone is paid for size alone."""
    env = make(scalarization="linear")
    observation, _ = env.reset(seed=0, options={"preference": [0, 2, 0]})
    assert observation["preference"].tolist() == [0, 1, 0]
    slot = [a.transform for a in env.slot_actions()].index("toy_quantize") + 1
    _, reward, _, _, info = env.step(slot)
    assert reward == pytest.approx(info["vector_reward"][1])
    assert reward > 0


def test_chebyshev_pays_for_the_worst_objective():
    """What does not move the worst weighted cost earns the augmentation's share only."""
    env = make(scalarization="chebyshev")
    env.reset(seed=0, options={"preference": [0.9, 0.05, 0.05]})
    slot = [a.transform for a in env.slot_actions()].index("toy_quantize") + 1
    _, reward, _, _, info = env.step(slot)
    assert info["vector_reward"][0] == 0
    assert reward == pytest.approx(0.05 * 0.05 * info["vector_reward"][1])


@pytest.mark.parametrize("bad", [[1, 1], [-1, 1, 1], [0, 0, 0], [np.nan, 1, 1], "abc"])
def test_a_preference_that_does_not_fit_is_refused(bad):
    """Wrong length, sign, sum or type."""
    with pytest.raises(UsageError, match="not a preference"):
        make().reset(seed=0, options={"preference": bad})


def test_reset_can_start_from_a_recipe():
    """Episodes begin at a front member."""
    space = ToySpace(sites=6)
    start = space.standard()[2][1].recipe
    env = make(space)
    env.reset(seed=0, options={"state": start.text})
    assert Recipe.parse(env.state) == start


def test_a_state_of_another_model_or_with_a_strange_action_is_refused():
    """Said with the reason, and nothing is moved."""
    env = make()
    env.reset(seed=0)
    before = env.state
    with pytest.raises(UsageError, match="another model"):
        env.set_state(Recipe(baseline="sha256:1").text)
    with pytest.raises(UsageError, match="does not apply"):
        env.set_state(ToySpace().empty().then(Action.of("whole_tool", "*")).text)
    assert env.state == before


def test_calls_out_of_turn_are_refused():
    """Before reset, after the end, and with nothing to undo."""
    env = make()
    with pytest.raises(UsageError, match="not started"):
        env.action_masks()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="no step"):
        env.undo()
    env.step(0)
    with pytest.raises(UsageError, match="ended"):
        env.step(0)
    env.undo()
    env.step(1)
