"""`EdgeOpt-v0`: build a recipe one legal action at a time; every step pays what it improved.

A state is a recipe. Action 0 is STOP, action 1 takes the latest change back; action i > 1 is the
slot of a legal action, in the space's stable order and padded (`action_masks`). An action that is
masked, or that turns out not to apply, changes nothing, costs a small penalty and a step, and stays
masked until the recipe changes. The reward vector is the decrease of each cost,
relative to the baseline; the scalar is the gain in utility for the episode's preference.

Over a real space a step rewrites, prunes or quantizes at one site of the graph as it is then; over
a space of plans (`search.assigned`) it sets a choice, or many at once, and nothing is built.

What could not be found out teaches nothing: where the evaluator cannot tell what a result costs
(its device is away, a child was killed), the episode is truncated where it stood, with a reward of
0 and `info["unknown"]`. A learner that goes on from the value of that state takes no credit from
it for the action. Where the device is away three times in a row, `step` raises, and nothing has
changed: to wait for it is not the learner's business.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Recipe
from edgeopt.core.protocols import Evaluator, Space
from edgeopt.envs import slots
from edgeopt.envs.away import UNKNOWN, Away
from edgeopt.envs.spec import SharedSpec
from edgeopt.envs.utility import Scalarization, utility
from edgeopt.errors import UsageError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Observation = dict[str, Array]
STOP, UNDO = 0, 1
_FIRST = 2
_LIMIT = {
    np.dtype(np.float16): 6e4,
    np.dtype(np.float32): 1e6,
    np.dtype(np.float64): 1e6,
}
"""Features are clipped here, since an observation box must be bounded to be sampled."""
_REWARD_LIMIT = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """One point of an episode: what undo goes back to."""

    recipe: Recipe
    relative: Floats
    legal: tuple[Action, ...]
    shown: Ints
    behind: "_State | None" = None
    refused: frozenset[int] = frozenset()
    steps: int = 0
    ended: bool = False


class EdgeOptEnv(  # pyright: ignore[reportIncompatibleVariableOverride]
    SharedSpec, gymnasium.Env[Observation, np.int64]
):
    """Gymnasium environment over a space and an evaluator.

    Observations are the space's arrays (those named `action...` with one row a slot, rows 0 and 1
    for STOP and taking back), `preference` [metrics], `costs` [metrics] relative to the baseline,
    `steps_left` [1] as a share, `device` (where a fingerprint is given) and `action_mask` [slots].

    Args:
        space: What can be done to the model.
        evaluator: What a recipe costs; its metrics are the reward vector's.
        max_actions: Slots for actions of the space. With more legal actions than slots a subset is
            shown, a fair share of every family; `info["hidden_actions"]` says how many are not.
        max_steps: An episode is truncated after so many.
        scalarization: How vector and preference become the scalar reward.
        penalty: Taken off for an action that is not legal.
        fingerprint: Numbers that tell the device from others, such as what kinds of work cost
            there in ratio to each other.
        vector: Whether `step` returns the reward vector, as MO-Gymnasium has it; the scalar is
            then `info["scalar_reward"]`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(
        self,
        space: Space,
        evaluator: Evaluator,
        *,
        max_actions: int = 128,
        max_steps: int = 24,
        scalarization: Scalarization = "chebyshev",
        penalty: float = 0.05,
        fingerprint: Sequence[float] = (),
        vector: bool = False,
    ) -> None:
        self._space = space
        self._evaluator = evaluator
        self._max_steps = max_steps
        self._scalarization: Scalarization = scalarization
        self._penalty = penalty
        self._vector = vector
        self._fingerprint = np.asarray(fingerprint, dtype=np.float32)
        self._groups = slots.Groups(space.choices)
        self._fixed: dict[str, tuple[Array, Array]] = {}
        self._away = Away()
        self._slots = _FIRST + max_actions
        self._metrics = len(evaluator.metrics)
        self._baseline = self._baseline_costs()
        self._preference: Floats = np.full(self._metrics, 1 / self._metrics)
        self._path: list[_State] = []
        self.action_space = gymnasium.spaces.Discrete(self._slots)
        self.observation_space = self._observed_space()
        self.reward_space = gymnasium.spaces.Box(
            -_REWARD_LIMIT, _REWARD_LIMIT, (self._metrics,), np.float64
        )

    # Gymnasium's interface

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Of the preference that is drawn.
            options: `preference` (non-negative [metrics], drawn from a flat Dirichlet distribution
                where it is not given) and `state` (text of the recipe to start from).

        Raises:
            UsageError: A preference or a recipe that does not fit.
        """
        super().reset(seed=seed)
        given = options or {}
        drawn = self.np_random.dirichlet(np.ones(self._metrics))
        self._preference = self._checked(given["preference"]) if "preference" in given else drawn
        start = self._read(given["state"]) if "state" in given else self._space.empty()
        self._path = [self._at(start)]
        return self._observation(), self._info(np.zeros(self._metrics))

    def step(self, action: np.int64) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        """One action: its slot's number.

        Raises:
            UsageError: Before `reset`, or after the episode's end.
            DeviceError: The evaluator's device is away for the third time in a row; the same step
                can be taken again.
        """
        before = self._now()
        if before.ended:
            raise UsageError("the episode has ended", hint="call reset() or undo()")
        steps = before.steps + 1
        truncated = steps >= self._max_steps
        if int(action) == STOP:
            self._push(before, steps=steps, ended=True)
            return self._told(before, before, terminated=True)
        try:
            after = self._after(before, int(action))
        except UNKNOWN as error:
            why = self._away.why(error)
            self._push(before, steps=steps, ended=True)
            return self._told(before, before, truncated=True, unknown=why)
        if isinstance(after, str):
            refusing = replace(before, refused=before.refused | {int(action)})
            self._push(refusing, steps=steps, ended=truncated)
            return self._told(before, before, truncated=truncated, rejected=after)
        self._push(after, steps=steps, ended=truncated)
        return self._told(before, after, truncated=truncated)

    # Beyond Gymnasium

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """[slots]: which actions are legal now; STOP always is."""
        mask = np.zeros(self._slots, dtype=np.bool_)
        now = self._now()
        mask[: _FIRST + len(now.shown)] = True
        mask[UNDO] = now.behind is not None
        mask[list(now.refused)] = False
        return mask

    def slot_actions(self) -> tuple[Action, ...]:
        """What stands in the slots from 2 on."""
        now = self._now()
        shown: list[int] = now.shown.tolist()
        return tuple(now.legal[index] for index in shown)

    def utility(self, relative: Floats) -> float:
        """What relative costs are worth for the preference of this episode."""
        return utility(relative, self._preference, self._scalarization)

    def undo(self) -> Observation:
        """Take the last step back (or the last `set_state`), its count of steps included.

        Raises:
            UsageError: There is nothing to take back.
        """
        if len(self._path) < 2:
            raise UsageError("there is no step to take back", hint="take a step first")
        self._path.pop()
        return self._observation()

    def fork(self) -> "EdgeOptEnv":
        """An independent copy: the same future for the same actions.

        Space and evaluator stay shared: both answer for a recipe and are not changed by it.
        """
        other = copy.copy(self)
        other._path = list(self._path)
        other.np_random = copy.deepcopy(self.np_random)
        other.action_space = copy.deepcopy(self.action_space)
        return other

    def replay(self, actions: Iterable[Action]) -> Observation:
        """From the start of the episode, one legal action after the other; costs no step.

        Raises:
            UsageError: An action does not apply; nothing has moved.
        """
        now, at = self._now(), self._path[0]
        for action in actions:
            longer = self._space.then(at.recipe, action)
            if isinstance(longer, str):
                raise UsageError(f"it does not apply: {longer}", where=action.text)
            at = self._at(longer, at)
        self._push(at, steps=now.steps, ended=False)
        return self._observation()

    @property
    def recipe(self) -> Recipe:
        """What was done so far."""
        return self._now().recipe

    @property
    def state(self) -> str:
        """The recipe so far, as text; `set_state` reads it back."""
        return self._now().recipe.text

    def set_state(self, text: str) -> Observation:
        """Go to a recipe; it costs no step, and `undo` comes back.

        Raises:
            UsageError: The text is no recipe of this space.
        """
        now = self._now()
        self._push(self._at(self._read(text), now), steps=now.steps, ended=False)
        return self._observation()

    # Inside

    def _now(self) -> _State:
        if not self._path:
            raise UsageError("the environment was not started", hint="call reset() first")
        return self._path[-1]

    def _push(self, state: _State, *, steps: int, ended: bool) -> None:
        self._path.append(replace(state, steps=steps, ended=ended))

    def _at(self, recipe: Recipe, behind: _State | None = None) -> _State:
        relative = self._relative(recipe)
        legal = self._space.legal(recipe)
        return _State(
            recipe=recipe,
            relative=relative,
            legal=legal,
            shown=self._shown(legal),
            behind=behind,
        )

    def _shown(self, legal: tuple[Action, ...]) -> Ints:
        most = self._slots - _FIRST
        if len(legal) <= most:
            return np.arange(len(legal))
        return slots.subset(self._groups.of(legal), most)

    def _after(self, before: _State, slot: int) -> _State | str:
        """The state behind a slot, or why there is none."""
        if slot == UNDO:
            return before.behind or "there is nothing to take back"
        if not _FIRST <= slot < _FIRST + len(before.shown):
            return f"slot {slot} holds no action"
        action = before.legal[int(before.shown[slot - _FIRST])]
        longer = self._space.then(before.recipe, action)
        if isinstance(longer, str):
            return longer
        after = self._at(longer, before)
        self._away.answered()
        return after if np.isfinite(after.relative).all() else "the result cannot be evaluated"

    def _relative(self, recipe: Recipe) -> Floats:
        return np.asarray(self._evaluator.costs(recipe), dtype=np.float64) / self._baseline

    def _baseline_costs(self) -> Floats:
        costs = np.asarray(self._evaluator.costs(self._space.empty()), dtype=np.float64)
        if not np.isfinite(costs).all():
            raise UsageError("the baseline has no costs", hint="check the evaluator")
        return np.where(costs == 0, 1.0, np.abs(costs))

    def _checked(self, given: Any) -> Floats:
        wrong = UsageError(
            f"{given!r} is not a preference",
            hint=f"give {self._metrics} non-negative weights: {self._evaluator.metrics}",
        )
        try:
            found = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise wrong from error
        fits = found.shape == (self._metrics,) and np.isfinite(found).all()
        if not fits or (found < 0).any() or found.sum() <= 0:
            raise wrong
        return found / found.sum()

    def _read(self, text: str) -> Recipe:
        wanted = Recipe.parse(text)
        recipe: Recipe | str = self._space.empty()
        if wanted.baseline != recipe.baseline:
            raise UsageError("the recipe is for another model", hint="take one of this baseline")
        for action in wanted.actions:
            recipe = self._space.then(recipe, action.bare())
            if isinstance(recipe, str):
                raise UsageError(f"the recipe does not apply: {recipe}", where=action.text)
        return recipe

    def _arrays(self, recipe: Recipe, shown: Ints) -> Observation:
        """The space's arrays, those of actions with one row a slot."""
        return {
            name: self._rows(array, shown)
            if name.startswith("action")
            else self._whole(name, array)
            for name, array in self._space.observe(recipe).items()
        }

    def _rows(self, array: Array, shown: Ints) -> Array:
        rows = np.zeros((self._slots, *array.shape[1:]), dtype=array.dtype)
        there = shown[: np.searchsorted(shown, len(array))]
        rows[_FIRST : _FIRST + len(there)] = array[there]
        return _bounded(rows)

    def _whole(self, name: str, array: Array) -> Array:
        """An array that a space made read-only is the same one as long as it is that object."""
        if array.flags.writeable:
            return _bounded(array.copy())
        held = self._fixed.get(name)
        if held is None or held[0] is not array:
            held = self._fixed[name] = array, _bounded(array.copy())
        return held[1].copy()

    def _observation(self) -> Observation:
        now = self._now()
        left = 1 - now.steps / self._max_steps
        device = {"device": self._fingerprint.copy()} if self._fingerprint.size else {}
        return {
            **self._arrays(now.recipe, now.shown),
            **device,
            "preference": self._preference.astype(np.float32),
            "costs": np.clip(now.relative, -1e6, 1e6).astype(np.float32),
            "steps_left": np.array([left], dtype=np.float32),
            "action_mask": self.action_masks().astype(np.int8),
        }

    def _observed_space(self) -> Any:
        arrays = self._arrays(self._space.empty(), np.arange(0))
        boxes: dict[str, Any] = {name: _box(array) for name, array in arrays.items()}
        if self._fingerprint.size:
            boxes["device"] = _box(self._fingerprint)
        boxes["preference"] = gymnasium.spaces.Box(0, 1, (self._metrics,), np.float32)
        boxes["costs"] = gymnasium.spaces.Box(-1e6, 1e6, (self._metrics,), np.float32)
        boxes["steps_left"] = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        boxes["action_mask"] = gymnasium.spaces.Box(0, 1, (self._slots,), np.int8)
        return gymnasium.spaces.Dict(boxes)

    def _told(
        self,
        before: _State,
        after: _State,
        *,
        terminated: bool = False,
        truncated: bool = False,
        **why: str,
    ) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        gained = before.relative - after.relative
        info = {**self._info(gained), **why}
        scalar = self.utility(after.relative) - self.utility(before.relative)
        scalar -= self._penalty * ("rejected" in why)
        if not self._vector:
            return self._observation(), scalar, terminated, truncated, info
        info["scalar_reward"] = scalar
        return self._observation(), gained.copy(), terminated, truncated, info

    def _info(self, vector: Floats) -> dict[str, Any]:
        now = self._now()
        ended = {"recipe": now.recipe.digest} if now.ended else {}
        return {
            **ended,
            "vector_reward": vector.copy(),
            "relative_costs": now.relative.copy(),
            "metrics": self._evaluator.metrics,
            "legal_actions": len(now.legal),
            "hidden_actions": len(now.legal) - len(now.shown),
        }


def _bounded(array: Array) -> Array:
    """Within its limits, in place; truth values as numbers."""
    limit = _LIMIT.get(array.dtype)
    if limit is not None:
        np.minimum(np.maximum(array, -limit, out=array), limit, out=array)
    return array.astype(np.int8) if array.dtype == np.bool_ else array


def _box(array: Array) -> gymnasium.spaces.Box:
    kind = array.dtype
    if kind in _LIMIT:
        limit = _LIMIT[kind]
        return gymnasium.spaces.Box(-limit, limit, array.shape, kind.type)
    bounds = np.iinfo(kind)
    return gymnasium.spaces.Box(bounds.min, bounds.max, array.shape, kind.type)
