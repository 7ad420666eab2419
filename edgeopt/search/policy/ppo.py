"""MaskablePPO of sb3-contrib with the pointer network: the one typed door to Stable-Baselines3.

The "mlp_extractor" that its policies expect is the whole network: it gives logits, which the
distribution takes as they are, and values. https://sb3-contrib.readthedocs.io

A training is one rollout and its update after the other. What is drawn in one follows from the seed
and its number, and episodes that a rollout leaves unfinished are lived through again when it goes
on: a training that was stopped, by whatever, ends with the weights that it would have had.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedBaseClass=false, reportIncompatibleMethodOverride=false
# pyright: reportMissingImports=false, reportUnknownLambdaType=false

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.distributions import MaskableCategoricalDistribution
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from edgeopt.core import digest as digests
from edgeopt.errors import UsageError
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.gym_env import AssignmentEnv
from edgeopt.search.policy.network import Weights, fresh
from edgeopt.search.policy.torch_network import Network
from edgeopt.search.policy.weights import POLICY, Trained, save

MODEL = "ppo.zip"
_CRITIC_ONLY = 4
"""Rollouts in which the critic alone learns: imitation leaves it untrained."""
_LINES = 4
"""Rollouts between two lines of progress."""
_EVERY_S = 30.0
"""Between two checkpoints."""
_PPO = 3
"""Number of the phase in the seeds."""
_UNREADABLE = (
    *(AttributeError, AssertionError, BadZipFile, EOFError, ImportError, KeyError, OSError),
    *(RuntimeError, TypeError, UnpicklingError, ValueError),
)
"""What reading a file raises that is no checkpoint, or one of another network."""


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


@dataclass(frozen=True)
class _Held:
    """What a checkpoint holds beside the model: whose training, episodes begun, time spent."""

    seed: int
    course: str
    episodes: tuple[tuple[Any, list[int]], ...]
    spent_s: float


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


class _Rollouts(BaseCallback):
    """What each rollout begins with: a seed of its own, and at first a critic that learns alone."""

    def __init__(self, settings: PpoSettings) -> None:
        super().__init__()
        self._seed, self._batch = settings.seed, settings.envs * settings.rollout

    def _on_rollout_start(self) -> None:
        number = self.num_timesteps // self._batch
        generator = np.random.default_rng([self._seed, _PPO, number])
        set_random_seed(int(generator.integers(2**31)))
        for name, parameter in network_of(self.model).named_parameters():
            parameter.requires_grad_(number >= _CRITIC_ONLY or "value" in name)

    def _on_step(self) -> bool:
        return True


def network_of(model: Any) -> Network:
    """The network inside a model."""
    return model.policy.mlp_extractor.network


class _Trainer:
    """A model in its folder.

    Args:
        folder: Takes the checkpoint, the policy, and TensorBoard's logs where that is installed.
        settings: Of the training.
        begin: Weights to begin with, where there is no checkpoint, and words about them.
        course: What is learned from.
        say: Takes lines.
    """

    def __init__(
        self,
        folder: Path,
        settings: PpoSettings,
        begin: Trained,
        course: Course,
        say: Callable[[str], None],
    ) -> None:
        self._folder, self._settings, self._say = folder, settings, say
        self._origin = dict(begin.origin)
        self._held = _Held(settings.seed, _digest(course), (), 0.0)
        self._envs = DummyVecEnv(
            [lambda: Monitor(AssignmentEnv(course)) for _ in range(settings.envs)]
        )
        self._clock, self._saved = time.process_time(), time.monotonic()
        there = (folder / MODEL).exists()
        self.model = self._restored() if there else _new(settings, self._envs, begin.weights)

    def run(self, stopped: Callable[[], bool]) -> bool:
        """Rollouts until there were steps enough; True where it came to its end."""
        model, batch = self.model, self._settings.envs * self._settings.rollout
        logs = self._folder / "tensorboard"
        found = find_spec("tensorboard") is not None
        outputs: list[Any] = [TensorBoardOutputFormat(str(logs))] if found else []
        logger = Logger(None, outputs)
        model.set_logger(logger)
        watch = _Rollouts(self._settings)
        try:
            while model.num_timesteps < self._settings.steps and not stopped():
                model.learn(batch, callback=watch, reset_num_timesteps=False)
                if not model.num_timesteps // batch % _LINES:
                    self._tell()
                if time.monotonic() - self._saved > _EVERY_S:
                    self.keep()
        finally:
            logger.close()
        self.keep()
        return bool(model.num_timesteps >= self._settings.steps)

    def keep(self) -> None:
        """Write the checkpoint and the policy; each is whole or not there."""
        now = time.process_time()
        envs: list[Any] = self._envs.envs
        episodes = tuple(each.unwrapped.episode for each in envs)
        spent_s = self._held.spent_s + now - self._clock
        self._clock, self._saved = now, time.monotonic()
        self._held = _Held(self._held.seed, self._held.course, episodes, spent_s)
        self.model.edgeopt = self._held
        beside = self._folder / "ppo.part.zip"
        self.model.save(beside)
        os.replace(beside, self._folder / MODEL)
        words = {
            "seed": str(self._settings.seed),
            "ppo_steps": str(self.model.num_timesteps),
            "ppo_processor_s": f"{spent_s:.0f}",
        }
        weights = network_of(self.model).arrays()
        save(self._folder / POLICY, Trained(weights, {**self._origin, **words}))

    def _tell(self) -> None:
        episodes = [each["r"] for each in self.model.ep_info_buffer or ()]
        mean = sum(episodes) / len(episodes) if episodes else 0.0
        done = f"{self.model.num_timesteps} of {self._settings.steps}"
        self._say(f"ppo: step {done}, gained {mean:+.3f}")

    def _restored(self) -> Any:
        """The model of the folder, with its unfinished episodes where they were."""
        path = self._folder / MODEL
        hint = "give another --out, or --fresh to begin again there"
        try:
            model: Any = MaskablePPO.load(path, env=self._envs, force_reset=False, device="cpu")
            found = model.edgeopt
            same = (found.seed, found.course) == (self._held.seed, self._held.course)
            if same and len(found.episodes) == self._settings.envs:
                self._live_again(found.episodes)
        except _UNREADABLE as error:
            why = " ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
            raise UsageError(
                f"the checkpoint there cannot be read, or is of other instances ({why})",
                where=str(path),
                hint=hint,
            ) from error
        if not same:
            raise UsageError(
                "the checkpoint there is of a training with another seed or other instances",
                where=str(path),
                hint=hint,
            )
        self._held = found
        self._say(f"going on after step {model.num_timesteps}")
        return model

    def _live_again(self, episodes: Sequence[tuple[Any, list[int]]]) -> None:
        for env, (state, actions) in zip(self._envs.envs, episodes, strict=True):
            one: Any = env
            one.unwrapped.draw_from(state)
            one.reset()
            for action in actions:
                one.step(action)


def trained(
    folder: Path,
    settings: PpoSettings,
    begin: Trained,
    course: Course,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> bool:
    """Train, or go on where the folder has a model; True where it came to its end.

    Raises:
        UsageError: The model there is of another training, or no model.
    """
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    return _Trainer(folder, settings, begin, course, say).run(stopped)


def _digest(course: Course) -> str:
    """Of the instances and what is to be learned from them."""
    parts = (course.bank.starts, course.wanted, course.targets)
    return digests.of_text(" ".join(digests.of_bytes(part.tobytes()) for part in parts))


def _new(settings: PpoSettings, envs: DummyVecEnv, begin: Weights) -> Any:
    """A model with these weights."""
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
        device="cpu",
    )
    network = network_of(model)
    with torch.no_grad():
        for name, parameter in network.weights.items():
            parameter.copy_(torch.tensor(begin[name]))
    return model
