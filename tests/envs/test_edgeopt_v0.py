"""`EdgeOpt-v0` on the toy space, with exact costs."""

import gymnasium
import numpy as np
import pytest

from edgeopt import envs
from edgeopt.core.action import Action, Recipe
from edgeopt.errors import ConnectionLostError, EdgeOptError, InconclusiveError, UsageError
from edgeopt.search.assigned import Assigned, PlanCosts
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
    slot = [a.transform for a in env.slot_actions()].index("toy_quantize") + 2
    _, reward, _, _, info = env.step(slot)
    assert info["rejected"]
    assert -1 < reward < 0
    assert not Recipe.parse(env.state).actions


def test_what_turns_out_not_to_apply_is_masked_until_the_recipe_changes():
    """Else a masked policy would try it for ever."""
    env = make(Refusing(sites=6))
    env.reset(seed=0)
    env.step(2 + [a.parameters for a in env.slot_actions()].index((("weight", "int8"),)))
    slot = 2 + [a.transform for a in env.slot_actions()].index("toy_repair")
    state = env.state
    observation, reward, terminated, _, info = env.step(slot)
    assert "nearer" in info["rejected"]
    assert env.state == state
    assert reward < 0
    assert not terminated
    assert not env.action_masks()[slot]
    assert not observation["action_mask"][slot]
    env.step(2)
    assert env.state != state
    again = 2 + [a.transform for a in env.slot_actions()].index("toy_repair")
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
    for slot, action in enumerate(env.slot_actions(), start=2):
        assert np.array_equal(observation["actions"][slot], rows[legal.index(action)])


def test_a_given_preference_is_used():
    """Who cares for size alone is paid for size alone."""
    env = make(scalarization="linear")
    observation, _ = env.reset(seed=0, options={"preference": [0, 2, 0]})
    assert observation["preference"].tolist() == [0, 1, 0]
    slot = [a.transform for a in env.slot_actions()].index("toy_quantize") + 2
    _, reward, _, _, info = env.step(slot)
    assert reward == pytest.approx(info["vector_reward"][1])
    assert reward > 0


def test_chebyshev_pays_for_the_worst_objective():
    """What does not move the worst weighted cost earns the augmentation's share only."""
    env = make(scalarization="chebyshev")
    env.reset(seed=0, options={"preference": [0.9, 0.05, 0.05]})
    slot = [a.transform for a in env.slot_actions()].index("toy_quantize") + 2
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
    env.step(2)


def test_the_second_action_takes_the_latest_change_back():
    """It costs a step, pays what the change had paid, negated, and is masked at the start."""
    env = make()
    first, _ = env.reset(seed=0)
    assert not env.action_masks()[1]
    _, paid, *_ = env.step(2)
    observation, back, *_ = env.step(1)
    assert back == pytest.approx(-paid)
    assert env.recipe == ToySpace(sites=6).empty()
    assert not env.action_masks()[1]
    assert np.array_equal(observation["nodes"], first["nodes"])
    assert observation["steps_left"] < first["steps_left"]


def test_replay_repeats_a_recipe():
    """Its actions one after the other; where one does not apply, nothing has moved."""
    space = ToySpace(sites=6)
    wanted = space.standard()[2][1].recipe
    env = make(space)
    env.reset(seed=0)
    env.replay(wanted.actions)
    assert env.recipe == wanted
    with pytest.raises(UsageError, match="does not apply"):
        env.replay([Action.of("whole_tool", "*")])
    assert env.recipe == wanted


class Lost:
    """An evaluator whose device goes away, or whose child is killed, for one transform."""

    deterministic = True
    metrics = ("latency",)

    def __init__(self, error: EdgeOptError) -> None:
        self.error, self.away = error, True

    def costs(self, recipe: Recipe):
        if self.away and any(a.transform == "toy_prune" for a in recipe.actions):
            raise self.error
        return np.array([2.0 - 0.1 * len(recipe.actions)])


def pruning(env) -> int:
    return 2 + [a.transform for a in env.slot_actions()].index("toy_prune")


def test_an_unreachable_device_is_no_reward():
    """Truncated where it stood, as if nothing had been asked; goes on when the device is back."""
    evaluator = Lost(ConnectionLostError("the board does not answer"))
    env = envs.make(ToySpace(sites=6), evaluator)
    env.reset(seed=0)
    env.step(2)
    before, mask, slot = env.state, env.action_masks(), pruning(env)
    _, reward, terminated, truncated, info = env.step(slot)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert not info["vector_reward"].any()
    assert "does not answer" in info["unknown"]
    assert env.state == before
    evaluator.away = False
    env.undo()
    assert np.array_equal(env.action_masks(), mask)
    observation, reward, _, truncated, _ = env.step(slot)
    assert reward > 0
    assert not truncated
    assert observation["steps_left"] == pytest.approx(1 - 2 / 24)


def test_a_device_that_stays_away_ends_no_episode_for_ever():
    """The third time in a row it is the caller's error, and nothing has changed by it."""
    evaluator = Lost(ConnectionLostError("the board does not answer"))
    env = envs.make(ToySpace(sites=6), evaluator)
    for _ in range(2):
        env.reset(seed=0)
        assert env.step(pruning(env))[3]
    env.reset(seed=0)
    before, mask, slot = env.state, env.action_masks(), pruning(env)
    for _ in range(2):
        with pytest.raises(ConnectionLostError):
            env.step(slot)
    assert env.state == before
    assert np.array_equal(env.action_masks(), mask)
    evaluator.away = False
    assert env.step(slot)[1] > 0
    evaluator.away = True
    env.undo()
    assert "does not answer" in env.step(slot)[4]["unknown"]


def test_a_killed_child_teaches_nothing():
    """Truncated where it stood: no reward, no penalty, no masked action, and it says why."""
    evaluator = Lost(InconclusiveError("the system killed the job: out of memory"))
    env = envs.make(ToySpace(sites=6), evaluator)
    env.reset(seed=0)
    before, slot = env.state, pruning(env)
    _, reward, terminated, truncated, info = env.step(slot)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert not info["vector_reward"].any()
    assert "out of memory" in info["unknown"]
    assert "rejected" not in info
    assert env.state == before
    assert env.action_masks()[slot]


def test_mo_gymnasium_wrappers_work_on_it():
    """The reward is the vector, and MO-Gymnasium's scalarization gives it weights."""
    wrappers = pytest.importorskip("mo_gymnasium.wrappers", reason="mo-gymnasium is not installed")
    weight = np.array([0.5, 0.3, 0.2])
    env = wrappers.LinearReward(make(vector=True), weight=weight)
    env.reset(seed=0, options={"preference": weight})
    _, reward, _, _, info = env.step(2)
    assert reward == pytest.approx(weight @ info["vector_reward"])
    recorded = wrappers.MORecordEpisodeStatistics(make(vector=True, max_steps=2))
    _, start = recorded.reset(seed=0)
    recorded.step(2)
    *_, end = recorded.step(2)
    moved = start["relative_costs"] - end["relative_costs"]
    assert end["episode"]["r"] == pytest.approx(moved, abs=1e-6)


def test_a_fingerprint_is_part_of_what_is_seen():
    """Numbers of the device, the same in every step."""
    env = make(fingerprint=[0.25, 4.0])
    observation, _ = env.reset(seed=0)
    assert observation["device"].tolist() == [0.25, 4.0]
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_the_exam_over_plans(part):
    """The same exam where nothing is built: choices, many at once, and back."""

    def plans():
        found = Assigned(ToySpace(sites=5))
        return envs.make(found, PlanCosts(found), max_actions=48, max_steps=6)

    part(plans)
