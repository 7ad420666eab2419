"""Plans made by a policy, many at once."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgeopt.search.policy.assignment import Assignment
from edgeopt.search.policy.network import Weights, chances, forward
from edgeopt.search.policy.observation import Observation
from edgeopt.search.policy.tables import Floats, Ints

Choose = Callable[[Observation], Ints]


@dataclass(frozen=True)
class Step:
    """One step of all plans.

    Args:
        seen: Before it.
        action: [B].
        active: Which had not stopped [B].
    """

    seen: Observation
    action: Ints
    active: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rollout:
    """Plans from their start to their end.

    Args:
        end: The last state.
        gained: Sum of the rewards [B].
        steps: One by one; empty where they were not kept.
    """

    end: Assignment
    gained: Floats
    steps: tuple[Step, ...]


def rolled(
    start: Assignment, choose: Choose, *, keep: bool = False, passed: list[Ints] | None = None
) -> Rollout:
    """Until every plan has stopped.

    Args:
        start: Where each begins.
        choose: One candidate a plan.
        keep: Whether the steps are to come back, with what was seen.
        passed: Takes the plans [B, L] after each step.
    """
    state = start
    gained = np.zeros(len(start.codes))
    steps: list[Step] = []
    while not state.done.all():
        seen = state.observe()
        action = choose(seen)
        if keep:
            steps.append(Step(seen, action, ~state.done))
        state, rewards = state.step(action)
        gained += rewards
        if passed is not None:
            passed.append(state.codes)
    return Rollout(state, gained, tuple(steps))


def chooser(
    weights: Weights, generator: np.random.Generator, greedy: npt.NDArray[np.bool_]
) -> Choose:
    """The policy by its weights: the best candidate where `greedy` [B], else one drawn."""

    def choose(seen: Observation) -> Ints:
        logits = np.asarray(forward(weights, seen.arrays())[0])
        return np.where(greedy, logits.argmax(axis=1), drawn(chances(logits), generator))

    return choose


def drawn(shares: Floats, generator: np.random.Generator) -> Ints:
    """One candidate a row [B] by probabilities [B, C]."""
    edges = shares.cumsum(axis=1)
    at = generator.random((len(shares), 1)) * edges[:, -1:]
    found = np.minimum((edges <= at).sum(axis=1), shares.shape[1] - 1)
    return found.astype(np.int64)
