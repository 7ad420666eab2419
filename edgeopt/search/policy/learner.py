"""Imitation, then reinforcement by groups: plain torch, one optimizer, no critic.

What is drawn in an iteration depends on the seed and its number only, so that a training that was
stopped goes on as if it had not been.
"""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from edgeopt.search.policy.assignment import Assignment
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.network import Weights
from edgeopt.search.policy.observation import Observation
from edgeopt.search.policy.rollout import Step, chooser, rolled
from edgeopt.search.policy.tables import Floats, Ints
from edgeopt.search.policy.torch_network import Network, tensors

_CLIP = 1.0
_GROUP_CLIP = 0.5
_ENTROPY = 0.002
_MINIBATCH = 256
_SPREAD = 0.02
_IMITATE, _GROUP = 1, 2
"""Numbers of the phases in the seeds."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of a training.

    Args:
        seed: Of everything that is drawn.
        lessons: Steps of imitation.
        batch: States a step.
        rate: Adam's rate at its highest in imitation.
        rounds: Iterations of the second phase.
        groups, rollouts: Tasks a round, and rollouts a task, whose mean is the baseline.
        group_rate: Adam's rate in the second phase.
    """

    seed: int = 0
    lessons: int = 3000
    batch: int = 96
    rate: float = 2e-3
    rounds: int = 70
    groups: int = 16
    rollouts: int = 8
    group_rate: float = 3e-4


class Learner:
    """A network in training.

    Args:
        weights: To begin with.
        settings: Of the training.
    """

    def __init__(self, weights: Weights, settings: Settings) -> None:
        torch.set_num_threads(1)
        self.settings = settings
        self.network = Network(weights)
        self.lessons, self.rounds = 0, 0
        self._adam = torch.optim.Adam(self.network.parameters(), lr=settings.rate)

    def imitate(self, course: Course) -> float:
        """One step of imitation; returns the loss (cross entropy to the shares)."""
        generator = np.random.default_rng([self.settings.seed, _IMITATE, self.lessons])
        lesson = course.lesson(self.settings.batch, generator)
        logits, _ = self.network(tensors(lesson.state.observe()))
        shares = torch.from_numpy(lesson.shares).float()
        loss = -(shares * torch.log_softmax(logits, 1)).sum(1).mean()
        self._update(loss, self._cycle(), _CLIP)
        self.lessons += 1
        return float(loss.detach())

    def reinforce(self, course: Course) -> dict[str, float]:
        """One round of groups; returns mean gain of the potential, steps and loss."""
        generator = np.random.default_rng([self.settings.seed, _GROUP, self.rounds])
        tasks = course.tasks(self.settings.groups, generator)
        start = _repeated(tasks, self.settings.rollouts)
        sampled = np.zeros(len(start.codes), np.bool_)
        made = rolled(start, chooser(self.network.arrays(), generator, sampled), keep=True)
        table = made.gained.reshape(self.settings.groups, -1)
        apart = table - table.mean(axis=1, keepdims=True)
        advantage = (apart / (table.std(axis=1, keepdims=True) + _SPREAD)).ravel()
        loss = self._learned(made.steps, advantage)
        self.rounds += 1
        active = sum(int(step.active.sum()) for step in made.steps)
        return {
            "gained": float(made.gained.mean()),
            "steps": active / len(start.codes),
            "loss": loss,
        }

    def state(self) -> dict[str, Any]:
        """Everything that goes on later."""
        return {
            "network": self.network.state_dict(),
            "adam": self._adam.state_dict(),
            "lessons": self.lessons,
            "rounds": self.rounds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.network.load_state_dict(state["network"])
        self._adam.load_state_dict(state["adam"])
        self.lessons, self.rounds = int(state["lessons"]), int(state["rounds"])

    def _learned(self, steps: tuple[Step, ...], advantage: Floats) -> float:
        """One pass over all steps in small batches, each of one moment of the rollouts."""
        losses: list[float] = []
        whole = sum(int(step.active.sum()) for step in steps)
        for step in steps:
            rows = np.flatnonzero(step.active)
            for first in range(0, len(rows), _MINIBATCH):
                part = rows[first : first + _MINIBATCH]
                loss = self._policy_loss(step, part, advantage[part])
                scaled = loss * (len(part) * len(steps) / whole)
                self._update(scaled, self.settings.group_rate, _GROUP_CLIP)
                losses.append(float(loss.detach()))
        return float(np.mean(losses))

    def _policy_loss(self, step: Step, rows: Ints, advantage: Floats) -> torch.Tensor:
        logits, _ = self.network(tensors(_rows(step.seen, rows)))
        chance = torch.log_softmax(logits, 1)
        taken = chance.gather(1, torch.from_numpy(step.action[rows])[:, None])[:, 0]
        entropy = -(chance.exp() * chance).sum(1).mean()
        worth = torch.from_numpy(advantage).float()
        return -(worth * taken).mean() - _ENTROPY * entropy

    def _update(self, loss: torch.Tensor, rate: float, clip: float) -> None:
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), clip)
        self._adam.step()

    def _cycle(self) -> float:
        """Up over the first tenth, then down to a hundredth."""
        done = self.lessons / max(self.settings.lessons, 1)
        rise = min(done / 0.1, 1.0)
        fall = 0.5 * (1 + np.cos(np.pi * min(max(done - 0.1, 0.0) / 0.9, 1.0)))
        return self.settings.rate * float(min(0.1 + 0.9 * rise, 0.01 + 0.99 * fall))


def _repeated(tasks: Assignment, times: int) -> Assignment:
    index = np.repeat(np.arange(len(tasks.codes)), times)
    return replace(
        tasks,
        bank=tasks.bank.take(index),
        preference=tasks.preference[index],
        codes=tasks.codes[index],
        left=tasks.left[index],
    )


def _rows(seen: Observation, rows: Ints) -> Observation:
    found: dict[str, npt.NDArray[np.float32]] = {
        name: values[rows] for name, values in seen.arrays().items()
    }
    return Observation(**found)
