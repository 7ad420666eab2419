"""The assignment problem as a Gymnasium environment: one plan, for learners that want one.

Observations are those of the batched problem, padded to the largest instance; the reward is the
difference of the potential less the cost of a step, so that an episode's sum is that of its ends.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from edgeopt.search.policy.assignment import Assignment
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.observation import CANDIDATE, GLOBAL, NODE

Seen = dict[str, npt.NDArray[np.float32]]
_MOST = 30.0
"""No figure of an observation is greater."""


class AssignmentEnv(gymnasium.Env[Seen, int]):
    """Episodes over the instances of a course.

    Args:
        course: Where they are drawn from.
    """

    def __init__(self, course: Course) -> None:
        self._course = course
        choices, candidates = course.bank.starts.shape[1], course.bank.edits.members.shape[1]
        shapes = {
            "node": (choices, NODE),
            "exists": (choices, 1),
            "near": (choices, choices),
            "border": (choices, choices),
            "candidate": (candidates, CANDIDATE),
            "members": (candidates, choices),
            "valid": (candidates,),
            "whole": (GLOBAL,),
        }
        boxes: dict[str, Any] = {
            name: spaces.Box(-_MOST, _MOST, shape, np.float32) for name, shape in shapes.items()
        }
        self.observation_space: Any = spaces.Dict(boxes)
        self.action_space: Any = spaces.Discrete(candidates)
        self._state: Assignment | None = None
        self._drawn: Any = None
        self._taken: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """A new instance, preference and start."""
        super().reset(seed=seed)
        self._drawn, self._taken = self.np_random.bit_generator.state, []
        self._state = self._course.tasks(1, self.np_random)
        return self._seen(self._state), {}

    def step(self, action: int) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """One edit, or STOP (0); one that may not be chosen changes nothing."""
        assert self._state is not None, "reset comes first"
        self._taken.append(int(action))
        self._state, reward = self._state.step(np.array([action], np.int64))
        ended = bool(self._state.done[0])
        info = {"potential": float(self._state.potential()[0])} if ended else {}
        return self._seen(self._state), float(reward[0]), ended, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which candidates may be chosen; STOP always."""
        assert self._state is not None, "reset comes first"
        return np.asarray(self._state.observe().valid[0] > 0)

    @property
    def episode(self) -> tuple[Any, list[int]]:
        """What the episode follows from: the generator's state before it, and its actions."""
        return self._drawn, list(self._taken)

    def draw_from(self, state: Any) -> None:
        """Let the next `reset` draw what it drew when the generator was in that state."""
        self.np_random.bit_generator.state = state

    def _seen(self, state: Assignment) -> Seen:
        found = state.observe().arrays().items()
        return {name: np.clip(values[0], -_MOST, _MOST) for name, values in found}
