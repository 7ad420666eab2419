"""The exam of an environment over (space, evaluator): what every learner relies on.

    from edgeopt.testing.environment_exam import examine
    def test_my_environment():
        examine(lambda: envs.make(space, evaluator))

Each part raises AssertionError with a sentence that says what was broken. The evaluator must be
deterministic: with measured costs equal actions give unequal rewards, and nothing can be compared.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Observation = Mapping[str, Array]
Episode = list[tuple[Observation, float, Array]]
"""Observation, reward and vector reward of each step."""


class Environment(Protocol):
    """What the exam drives: Gymnasium's verbs and edgeopt's own."""

    observation_space: Any
    reward_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Observation and info."""
        ...

    def step(self, action: Any) -> Any:
        """Observation, reward, terminated, truncated, info."""
        ...

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are legal now."""
        ...

    def utility(self, relative: npt.NDArray[np.float64]) -> float:
        """The worth of relative costs for the episode's preference."""
        ...

    def undo(self) -> Observation:
        """One step back."""
        ...

    def fork(self) -> "Environment":
        """An independent copy."""
        ...

    @property
    def state(self) -> str:
        """The recipe as text."""
        ...

    def set_state(self, text: str) -> Observation:
        """Go to a recipe."""
        ...


Make = Callable[[], Environment]


def examine(make: Make) -> None:
    """Every part of the exam."""
    passes_the_checker(make)
    masks_are_true(make)
    is_deterministic(make)
    rewards_telescope(make)
    fork_has_the_same_future(make)
    undo_restores(make)
    state_reads_back(make)
    stop_terminates(make)
    truncates_in_time(make)
    illegal_actions_change_nothing(make)


def masked(env: Environment, generator: np.random.Generator) -> int:
    """A legal action, drawn uniformly."""
    return int(generator.choice(np.flatnonzero(env.action_masks())))


def equal(a: Observation, b: Observation) -> bool:
    """Whether two observations are the same to the bit."""
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def passes_the_checker(make: Make) -> None:
    """Gymnasium's own checker accepts it without a warning."""
    from gymnasium.utils.env_checker import check_env

    env: Any = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


def masks_are_true(make: Make) -> None:
    """The observation shows the mask; what is refused although it seemed legal is masked then."""
    env, generator = make(), np.random.default_rng(0)
    for episode in range(5):
        observation, info = env.reset(seed=episode)
        ended = False
        while not ended:
            mask = env.action_masks()
            assert mask[0], "STOP is not allowed"
            assert np.array_equal(observation["action_mask"], mask), "the observed mask differs"
            action = masked(env, generator)
            observation, _, terminated, truncated, info = env.step(action)
            refused = "rejected" in info
            assert not (refused and env.action_masks()[action]), "a refused action stays allowed"
            assert env.observation_space.contains(observation), "an observation is out of bounds"
            assert env.reward_space.contains(info["vector_reward"]), "a reward is out of bounds"
            ended = terminated or truncated


def rollout(env: Environment, seed: int) -> Episode:
    """The rest of an episode under a random masked policy."""
    generator = np.random.default_rng(seed)
    found: Episode = []
    ended = False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(masked(env, generator))
        found.append((observation, reward, info["vector_reward"]))
        ended = terminated or truncated
    return found


def _same(a: Episode, b: Episode) -> bool:
    return len(a) == len(b) and all(
        equal(x[0], y[0]) and x[1] == y[1] and np.array_equal(x[2], y[2])
        for x, y in zip(a, b, strict=True)
    )


def is_deterministic(make: Make) -> None:
    """Equal seeds and equal actions give equal episodes."""
    first, second = make(), make()
    assert equal(first.reset(seed=5)[0], second.reset(seed=5)[0]), "reset depends on more than seed"
    assert _same(rollout(first, 1), rollout(second, 1)), "equal actions gave unequal episodes"


def rewards_telescope(make: Make) -> None:
    """Rewards of an episode add up to what its end is worth: no path pays more than another."""
    env = make()
    for seed in range(5):
        generator = np.random.default_rng(seed)
        _, start = env.reset(seed=seed)
        gained, vectors, end, ended = 0.0, np.zeros(env.reward_space.shape), start, False
        while not ended:
            _, reward, terminated, truncated, end = env.step(masked(env, generator))
            gained += 0.0 if "rejected" in end else reward
            vectors += end["vector_reward"]
            ended = terminated or truncated
        worth = env.utility(end["relative_costs"]) - env.utility(start["relative_costs"])
        assert np.isclose(gained, worth), "rewards do not add up to the utility"
        moved = start["relative_costs"] - end["relative_costs"]
        assert np.allclose(vectors, moved), "vector rewards do not add up to the costs"


def fork_has_the_same_future(make: Make) -> None:
    """A fork behaves as its parent would, and neither sees the other."""
    env, generator = make(), np.random.default_rng(2)
    env.reset(seed=2)
    env.step(_first_legal(env, generator))
    state, mask = env.state, env.action_masks()
    fork = env.fork()
    future = rollout(fork, 3)
    assert env.state == state, "the fork moved its parent"
    assert np.array_equal(env.action_masks(), mask), "the fork changed its parent's mask"
    assert _same(rollout(env, 3), future), "the fork had another future than its parent"
    assert equal(env.reset()[0], fork.reset()[0]), "their next episodes differ"


def _first_legal(env: Environment, generator: np.random.Generator) -> int:
    legal = np.flatnonzero(env.action_masks())
    return int(generator.choice(legal[1:])) if len(legal) > 1 else 0


def undo_restores(make: Make) -> None:
    """Undo gives back observation, mask and state, to the bit, also after the end."""
    env, generator = make(), np.random.default_rng(4)
    observation, _ = env.reset(seed=4)
    seen = [(observation, env.state, env.action_masks())]
    ended = False
    while not ended:
        observation, _, terminated, truncated, _ = env.step(masked(env, generator))
        seen.append((observation, env.state, env.action_masks()))
        ended = terminated or truncated
    seen.pop()
    while seen:
        expected, state, mask = seen.pop()
        assert equal(env.undo(), expected), "undo gave another observation"
        assert env.state == state, "undo gave another recipe"
        assert np.array_equal(env.action_masks(), mask), "undo gave another mask"


def state_reads_back(make: Make) -> None:
    """`set_state(state)` in a fresh environment shows the same graph and the same actions."""
    env, generator = make(), np.random.default_rng(6)
    env.reset(seed=6)
    for _ in range(3):
        env.step(_first_legal(env, generator))
    other = make()
    other.reset(seed=6)
    there = other.set_state(env.state)
    assert other.state == env.state, "the state did not read back"
    assert np.array_equal(there["action_mask"], env.action_masks()), "it has other actions there"
    fresh, _ = make().reset(seed=6)
    assert equal(other.undo(), fresh), "undo did not come back from a state that was set"


def stop_terminates(make: Make) -> None:
    """STOP ends the episode, pays nothing and changes nothing."""
    env = make()
    env.reset(seed=0)
    state = env.state
    _, reward, terminated, truncated, info = env.step(0)
    assert terminated, "STOP did not terminate"
    assert not truncated, "STOP truncated"
    assert reward == 0, "STOP paid something"
    assert not info["vector_reward"].any(), "STOP paid something"
    assert env.state == state, "STOP changed the recipe"


def truncates_in_time(make: Make) -> None:
    """Whoever never stops is truncated, never terminated, when no steps are left."""
    env, generator = make(), np.random.default_rng(8)
    observation, _ = env.reset(seed=8)
    truncated = False
    while not truncated:
        left = observation["steps_left"][0]
        assert left > 0, "it went on without steps left"
        legal = np.flatnonzero(env.action_masks())[1:]
        action = int(generator.choice(legal)) if len(legal) else len(env.action_masks()) - 1
        observation, _, terminated, truncated, _ = env.step(action)
        assert not terminated, "it terminated without STOP"
        assert observation["steps_left"][0] < left, "steps left did not fall"


def illegal_actions_change_nothing(make: Make) -> None:
    """A masked action leaves the recipe as it is, and does not pay."""
    env = make()
    env.reset(seed=0)
    illegal = np.flatnonzero(~env.action_masks())
    if not len(illegal):
        return
    state = env.state
    _, reward, terminated, _, info = env.step(int(illegal[-1]))
    assert env.state == state, "an illegal action changed the recipe"
    assert reward <= 0, "an illegal action paid"
    assert not terminated, "an illegal action terminated"
    assert info.get("rejected"), "an illegal action was not reported"
