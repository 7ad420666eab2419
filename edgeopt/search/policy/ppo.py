"""MaskablePPO of sb3-contrib with the pointer network: the one typed door to Stable-Baselines3.

The "mlp_extractor" that its policies expect is the whole network: it gives logits, which the
distribution takes as they are, and values. https://sb3-contrib.readthedocs.io
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedBaseClass=false, reportIncompatibleMethodOverride=false
# pyright: reportMissingImports=false, reportUnknownLambdaType=false

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.distributions import MaskableCategoricalDistribution
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from edgeopt.search.policy.course import Course
from edgeopt.search.policy.gym_env import AssignmentEnv
from edgeopt.search.policy.network import Weights, fresh
from edgeopt.search.policy.torch_network import Network
from edgeopt.search.policy.weights import POLICY, Trained, save

MODEL = "ppo.zip"
_CRITIC_ONLY = 4
"""Rollouts in which the critic alone learns: imitation leaves it untrained."""


@dataclass(frozen=True, kw_only=True)
class PpoSettings:
    """Of a training.

    Args:
        seed: Of everything that is drawn.
        steps: Of the environment, in all.
        rate: Adam's.
        envs, rollout: Environments, and steps of each between two updates.
    """

    seed: int = 0
    steps: int = 30_000
    rate: float = 2e-4
    envs: int = 8
    rollout: int = 64


class _Seen(BaseFeaturesExtractor):
    """Passes the observation on as it is."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, features_dim=1)

    def forward(self, seen: Any) -> Any:
        """The same."""
        return seen


class _Pointer(torch.nn.Module):
    """The network where a policy expects its hidden layers."""

    def __init__(self, candidates: int) -> None:
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = candidates, 1
        self.network = Network(fresh(0))

    def forward(self, seen: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, C] and values [B, 1]."""
        logits, value = self.network(seen)
        return logits, value[:, None]

    def forward_actor(self, seen: Any) -> torch.Tensor:
        """Logits [B, C]."""
        return self.forward(seen)[0]

    def forward_critic(self, seen: Any) -> torch.Tensor:
        """Values [B, 1]."""
        return self.forward(seen)[1]


class _Logits(MaskableCategoricalDistribution):
    """Takes logits as they are: a linear layer on top would undo what candidates share."""

    def proba_distribution_net(self, latent_dim: int) -> torch.nn.Module:
        """Nothing."""
        return torch.nn.Identity()


class PointerPolicy(MaskableMultiInputActorCriticPolicy):
    """One scorer for all candidates."""

    def _build_mlp_extractor(self) -> None:
        space: Any = self.action_space
        size = int(space.n)
        self.action_dist = _Logits(size)
        self.mlp_extractor = _Pointer(size)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        with torch.no_grad():  # values come out of the network; in place, for the optimizer's sake
            self.value_net.weight.fill_(1.0)
            self.value_net.bias.zero_()


class _Watch(BaseCallback):
    """Progress, checkpoints, and a critic that learns first."""

    def __init__(
        self,
        folder: Path,
        settings: PpoSettings,
        say: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._folder, self._say, self._stopped = folder, say, stopped
        self._steps, self._batch = settings.steps, settings.envs * settings.rollout
        self._rollouts = 0

    def _on_rollout_start(self) -> None:
        warm = self.num_timesteps >= _CRITIC_ONLY * self._batch
        for name, parameter in network_of(self.model).named_parameters():
            parameter.requires_grad_(warm or "value" in name)
        self._rollouts += 1
        if self.num_timesteps and not self._rollouts % 4:
            episodes = [each["r"] for each in self.model.ep_info_buffer or ()]
            mean = sum(episodes) / len(episodes) if episodes else 0.0
            self._say(f"ppo: step {self.num_timesteps} of {self._steps}, gained {mean:+.3f}")
            keep(self._folder, self.model)

    def _on_step(self) -> bool:
        return not self._stopped()


def network_of(model: Any) -> Network:
    """The network inside a model."""
    return model.policy.mlp_extractor.network


def keep(folder: Path, model: Any) -> None:
    """The model, to go on from; whole or not there."""
    beside = folder / "ppo.part.zip"
    model.save(beside)
    os.replace(beside, folder / MODEL)


def trained(
    folder: Path,
    settings: PpoSettings,
    begin: Trained,
    course: Course,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> bool:
    """Train, or go on where the folder has a model; True where it came to its end."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    model = opened(folder, settings, begin.weights, course)
    left = settings.steps - model.num_timesteps
    if left > 0:
        watch = _Watch(folder, settings, say, stopped)
        model.learn(left, callback=watch, reset_num_timesteps=not model.num_timesteps)
    keep(folder, model)
    words = {"seed": str(settings.seed), "ppo_steps": str(model.num_timesteps)}
    weights = network_of(model).arrays()
    save(folder / POLICY, Trained(weights, {**begin.origin, **words}))
    return model.num_timesteps >= settings.steps


def opened(folder: Path, settings: PpoSettings, begin: Weights, course: Course) -> Any:
    """The model of a folder, or a new one with these weights."""
    from stable_baselines3.common.monitor import Monitor

    envs = DummyVecEnv([lambda: Monitor(AssignmentEnv(course)) for _ in range(settings.envs)])
    logs = str(folder / "tensorboard") if find_spec("tensorboard") else None
    if (folder / MODEL).exists():
        return MaskablePPO.load(folder / MODEL, env=envs, tensorboard_log=logs)
    model = MaskablePPO(
        PointerPolicy,
        envs,
        learning_rate=settings.rate,
        n_steps=settings.rollout,
        batch_size=min(256, settings.envs * settings.rollout),
        n_epochs=3,
        gamma=1.0,
        gae_lambda=0.95,
        ent_coef=0.003,
        target_kl=0.03,
        seed=settings.seed,
        policy_kwargs={"features_extractor_class": _Seen},
        tensorboard_log=logs,
        device="cpu",
    )
    network = network_of(model)
    with torch.no_grad():
        for name, parameter in network.weights.items():
            parameter.copy_(torch.tensor(begin[name]))
    return model
