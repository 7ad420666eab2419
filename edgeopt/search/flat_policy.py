"""`FlatPolicy`: the RL compiler's learner, PPO with an MLP, on `EdgeOptFlat-v0` over plans.

Its hyper-parameters are the published ones, which are Stable-Baselines3's defaults. Five updates
in 10,000 steps are little: it is here to be compared with. The environment is found by its name
through Gymnasium, so that neither room knows the other.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from edgeopt.core.action import Recipe
from edgeopt.core.protocols import Evaluator, Space
from edgeopt.errors import UsageError

HYPERPARAMETERS: Mapping[str, Any] = {
    "learning_rate": 3e-4,
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
_ENVIRONMENT = "edgeopt.envs.flat_v0:EdgeOptFlatEnv"
_REWARD = "edgeopt.envs.flat_v0:FlatReward"
_LONGEST = 1000


@dataclass(frozen=True)
class Episode:
    """One episode that the learner lived through.

    Args:
        step: Of the learner, at its end.
        gained: Undiscounted return.
        plan: Where it ended.
    """

    step: int
    gained: float
    plan: Recipe


class FlatPolicy:
    """A learner on one space.

    Args:
        space: Of plans.
        evaluator: What a plan costs; `latency` and `accuracy_drop` among its metrics.
        seed: Of weights and actions.
        allowed_drop: What may be lost for the bonus; None takes the published one.
        rollout: Steps between updates.

    Raises:
        UsageError: Stable-Baselines3 or torch is not installed.
    """

    def __init__(
        self,
        space: Space,
        evaluator: Evaluator,
        *,
        seed: int,
        allowed_drop: float | None = None,
        rollout: int = 2048,
    ) -> None:
        require()
        import stable_baselines3

        ppo: Any = stable_baselines3.PPO
        bound = {} if allowed_drop is None else {"allowed_drop": allowed_drop}
        make_reward: Any = load_env_creator(_REWARD)
        reward = make_reward(**bound)
        make: Any = load_env_creator(_ENVIRONMENT)
        bare = make(space, evaluator, reward=reward)
        self._kept = _Kept(bare)
        settings: dict[str, Any] = {**HYPERPARAMETERS, "n_steps": rollout}
        self._learner: Any = ppo(
            "MlpPolicy", self._kept, seed=seed, device="cpu", verbose=0, **settings
        )
        self._rollout = rollout
        self.steps = 0

    @property
    def episodes(self) -> Sequence[Episode]:
        """All that ended so far."""
        return self._kept.episodes

    def rollout(self) -> Sequence[Episode]:
        """Collect one buffer and update on it; the episodes that ended meanwhile.

        The evaluator must not change meanwhile: rewards are differences of what it says.
        """
        before = len(self._kept.episodes)
        self._learner.learn(self._rollout, reset_num_timesteps=self.steps == 0)
        self.steps += self._rollout
        return self._kept.episodes[before:]

    def greedy(self) -> Recipe:
        """Where the policy ends when it draws nothing."""
        env: Any = self._kept.env
        seen, _ = env.reset()
        for _ in range(_LONGEST):
            action, _ = self._learner.predict(seen, deterministic=True)
            seen, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                break
        plan: Recipe = env.unwrapped.recipe
        self._learner.set_env(self._kept)  # it was in the middle of an episode
        return plan


class _Kept(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the end of every episode: vector environments reset before anyone can look."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.episodes: list[Episode] = []
        self._steps, self._gained = 0, 0.0

    def reset(self, **given: Any) -> Any:
        """As the environment."""
        self._gained = 0.0
        return self.env.reset(**given)

    def step(self, action: Any) -> Any:
        """As the environment."""
        found = self.env.step(action)
        self._steps += 1
        self._gained += float(found[1])
        if found[2] or found[3]:
            plan: Any = self.env.unwrapped
            self.episodes.append(Episode(self._steps, self._gained, plan.recipe))
        return found


def require() -> None:
    """Say what is missing, and how to get it.

    Raises:
        UsageError: Stable-Baselines3 or torch is not installed.
    """
    missing = [name for name in ("torch", "stable_baselines3") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the strategy rl_mlp needs {' and '.join(missing)}, not installed here",
            hint="pip install 'edgeopt[rl]', or take another strategy: portfolio needs neither",
        )
