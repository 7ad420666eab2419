"""`EdgeOptFlat-v0`: the RL compiler's formulation, an operation and a layer a step.

An action is a pair (operation, layer) of `MultiDiscrete([5, layers])`: `quantize_layer`,
`prune_layer`, `fuse_conv_bn`, `skip_layer` (the layer is left as it is) and `terminate`. What the
pair means is looked up among the choices of the space, so every operation that succeeds gives
another model and every one that cannot is failed: it changes nothing and costs a penalty.
Quantizing or pruning a layer again takes the next alternative. An exact fusion is decided for the
whole model, since the space decides it so: it is on from the first layer that it is asked for at.

The reward of a step is what it gained, each cost relative to the baseline's:

    alpha x latency saved + beta x energy saved - gamma x accuracy lost   (+ bonus, - penalty)

The bonus is paid at the end of an episode whose recipe is faster than the baseline and keeps the
accuracy bound. Where nothing measures energy its term is absent, and `info["absent"]` says so.

A flat observation cannot say which action does what where, so a policy has to find that out for
each model by itself: `EdgeOpt-v0` is the formulation to use, and this one is the experiment to
compare it with.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Choice, Recipe
from edgeopt.core.protocols import Evaluator, Space
from edgeopt.envs.away import UNKNOWN, Away
from edgeopt.envs.spec import SharedSpec
from edgeopt.errors import UsageError

Floats = npt.NDArray[np.float32]
Costs = Mapping[str, float]
OPERATIONS = ("quantize_layer", "prune_layer", "fuse_conv_bn", "skip_layer", "terminate")
QUANTIZE, PRUNE, FUSE, SKIP, TERMINATE = range(5)
FEATURES = (
    *("log_macs", "log_size", "log_activations", "log_nodes"),
    *("macs", "size", "activations", "nodes"),
    *("log_layers", "can_quantize", "can_prune", "can_fuse"),
    *("quantized", "pruned", "fused"),
    *("latency", "accuracy_lost"),
)
"""17: of the graph (logarithms, and relative to the baseline), of its layers (shares that an
operation exists for, and that it was done to), and the two costs of the published reward."""
_STATIC = ("macs", "size_bytes", "activation_bytes", "nodes")
_REMEMBERED = 10
_LIMIT = 1e3
_FAMILY = {QUANTIZE: "quantize", PRUNE: "prune"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatReward:
    """Weights of the reward, and which costs of the evaluator they stand at.

    Args:
        alpha, beta, gamma: Of latency saved and energy saved (shares of the baseline's) and of
            accuracy lost (0..1).
        bonus: For an episode that ends faster than the baseline within `allowed_drop`.
        penalty: Taken off for an action that fails.
        allowed_drop: Accuracy (0..1) that may be lost for the bonus.
        latency, energy, accuracy: Names of the evaluator's costs; an accuracy cost is what was
            lost, and absolute.
    """

    alpha: float = 1.0
    beta: float = 0.3
    gamma: float = 10.0
    bonus: float = 0.2
    penalty: float = 0.05
    allowed_drop: float = 0.01
    latency: str = "latency"
    energy: str = "energy"
    accuracy: str = "accuracy_drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """Of each operation the choice that has an action at the layer; None where there is none."""

    site: str
    choices: Mapping[int, int]


class EdgeOptFlatEnv(  # pyright: ignore[reportIncompatibleVariableOverride]
    SharedSpec, gymnasium.Env[Floats, npt.NDArray[np.int64]]
):
    """Gymnasium environment of (operation, layer) pairs over a space and an evaluator.

    Observations are one vector [17 + 20 + 3] of float32: `FEATURES`; of each of the last ten
    actions the operation and the layer, in 0..1, latest first, -1 before the first; steps taken,
    steps left (shares) and whether the last action failed.

    Args:
        space: What can be done to the model.
        evaluator: What a recipe costs.
        reward: Weights, and which costs they stand at.
        fusions: Exact transforms that `fuse_conv_bn` stands for.
        max_steps: An episode is truncated after so many.

    Raises:
        UsageError: The model has no layer that anything can be done to, or the evaluator has no
            latency.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own convention

    def __init__(
        self,
        space: Space,
        evaluator: Evaluator,
        *,
        reward: FlatReward | None = None,
        fusions: Sequence[str] = ("fold_batchnorm",),
        max_steps: int = 50,
    ) -> None:
        self._space = space
        self._evaluator = evaluator
        self._reward = reward or FlatReward()
        self._max_steps = max_steps
        self._layers = _layers(space.choices, frozenset(fusions))
        if not self._layers:
            raise UsageError(
                "no layer of this model can be quantized, pruned or fused",
                hint="give data, so that quantization and pruning are offered",
            )
        if self._reward.latency not in evaluator.metrics:
            raise UsageError(
                f"the evaluator has no cost {self._reward.latency!r}",
                hint=f"name one of {', '.join(evaluator.metrics)} in FlatReward(latency=...)",
            )
        self.layers = tuple(layer.site for layer in self._layers)
        self.absent = tuple(
            name
            for name in (self._reward.energy, self._reward.accuracy)
            if name not in evaluator.metrics
        )
        self._away = Away()
        self._start = space.empty()
        self._base_graph = space.static_cost(self._start)
        self._base = self._costs(self._start)
        self._begin()
        self.action_space: Any = gymnasium.spaces.MultiDiscrete([5, len(self._layers)])
        size = len(FEATURES) + 2 * _REMEMBERED + 3
        self.observation_space: Any = gymnasium.spaces.Box(-_LIMIT, _LIMIT, (size,), np.float32)

    # Gymnasium's interface

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """The baseline; nothing is drawn."""
        super().reset(seed=seed)
        del options
        self._begin()
        return self._observation(), self._info("")

    def step(
        self, action: npt.NDArray[np.int64]
    ) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """One (operation, layer).

        Where the evaluator cannot tell what the result costs (InconclusiveError, or a device that
        is away), the episode is truncated where it stood before, without reward or penalty, and
        `info["unknown"]` says why: nothing follows from it for the action.

        Raises:
            UsageError: After the episode's end.
            DeviceError: The evaluator's device is away for the third time in a row; nothing has
                changed, and the same step can be taken again.
        """
        if self._ended:
            raise UsageError("the episode has ended", hint="call reset()")
        operation, layer = (int(each) for each in action)
        before = self._now
        try:
            why = "" if operation in (SKIP, TERMINATE) else self._change(operation, layer)
        except UNKNOWN as error:
            return self._unknown(self._away.why(error))
        self._steps += 1
        self._last.appendleft((operation, layer))
        terminated = operation == TERMINATE
        truncated = not terminated and self._steps >= self._max_steps
        self._failed = bool(why)
        self._ended = terminated or truncated
        reward = self._gain(before, self._now) - self._reward.penalty * self._failed
        if self._ended and self._worth_it():
            reward += self._reward.bonus
        return self._observation(), reward, terminated, truncated, self._info(why)

    # Beyond Gymnasium

    @property
    def recipe(self) -> Recipe:
        """What was done so far."""
        return self._recipe

    @property
    def costs(self) -> Costs:
        """Of the recipe so far, by the evaluator's names."""
        return dict(self._now)

    # Inside

    def _begin(self) -> None:
        self._codes = [0] * len(self._space.choices)
        self._recipe = self._start
        self._now: Costs = self._base
        self._steps = 0
        self._failed = False
        self._ended = False
        self._last: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)

    def _change(self, operation: int, layer: int) -> str:
        """Do it; says why it failed, or nothing."""
        which = self._layers[layer].choices.get(operation)
        named = f"{OPERATIONS[operation]} at {self._layers[layer].site!r}"
        if which is None:
            return f"nothing to do for {named}"
        codes = list(self._codes)
        codes[which] += 1
        if codes[which] >= len(self._space.choices[which]):
            return f"{named} has no further alternative"
        recipe = self._space.decode(codes)
        if recipe == self._recipe:
            return f"{named} does not apply to the model as it is now"
        costs = self._costs(recipe)
        if not all(np.isfinite(value) for value in costs.values()):
            return f"the model after {named} cannot be evaluated"
        self._codes, self._recipe, self._now = codes, recipe, costs
        return ""

    def _unknown(self, why: str) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        self._ended = True
        return self._observation(), 0.0, False, True, {**self._info(""), "unknown": why}

    def _costs(self, recipe: Recipe) -> Costs:
        found = self._evaluator.costs(recipe)
        self._away.answered()
        return dict(zip(self._evaluator.metrics, map(float, found), strict=True))

    def _gain(self, before: Costs, after: Costs) -> float:
        weights = self._reward
        gain = weights.alpha * self._saved(weights.latency, before, after)
        if weights.energy in after:
            gain += weights.beta * self._saved(weights.energy, before, after)
        if weights.accuracy in after:
            gain -= weights.gamma * (after[weights.accuracy] - before[weights.accuracy])
        return gain

    def _saved(self, name: str, before: Costs, after: Costs) -> float:
        return (before[name] - after[name]) / (abs(self._base[name]) or 1.0)

    def _lost(self) -> float:
        name = self._reward.accuracy
        return self._now.get(name, 0.0) - self._base.get(name, 0.0)

    def _worth_it(self) -> bool:
        faster = self._saved(self._reward.latency, self._base, self._now) > 0
        return faster and self._lost() <= self._reward.allowed_drop

    def _observation(self) -> Floats:
        done = np.full((_REMEMBERED, 2), -1.0)
        for row, (operation, layer) in enumerate(self._last):
            done[row] = operation / (len(OPERATIONS) - 1), layer / max(len(self._layers) - 1, 1)
        taken = self._steps / self._max_steps
        steps = [taken, 1 - taken, float(self._failed)]
        found = np.concatenate([self._features(), done.ravel(), steps])
        return np.clip(found, -_LIMIT, _LIMIT).astype(np.float32)

    def _features(self) -> npt.NDArray[np.float64]:
        graph = self._space.static_cost(self._recipe)
        logs = [np.log10(1 + graph[name]) for name in _STATIC]
        shares = [graph[name] / (self._base_graph[name] or 1.0) for name in _STATIC]
        count = len(self._layers)
        operations = (QUANTIZE, PRUNE, FUSE)
        can = [sum(o in layer.choices for layer in self._layers) / count for o in operations]
        done = [sum(self._done(o, layer) for layer in self._layers) / count for o in operations]
        latency = 1 - self._saved(self._reward.latency, self._base, self._now)
        told = [*logs, *shares, np.log10(1 + count), *can, *done, latency, self._lost()]
        return np.asarray(told, dtype=np.float64)

    def _done(self, operation: int, layer: _Layer) -> bool:
        which = layer.choices.get(operation)
        return which is not None and self._codes[which] > 0

    def _info(self, why: str) -> dict[str, Any]:
        told: dict[str, Any] = {
            "costs": dict(self._now),
            "absent": self.absent,
        }
        if self._ended:
            told["recipe"] = self._recipe.digest
        return {**told, "failed": why} if why else told


def _layers(choices: Sequence[Choice], fusions: frozenset[str]) -> tuple[_Layer, ...]:
    """Every site that an operation exists for, in the order of the choices."""
    found: dict[str, dict[int, int]] = {}
    for index, choice in enumerate(choices):
        operation = _operation(choice, fusions)
        if operation is None:
            continue
        for action in choice.alternatives[1]:
            fits = operation != FUSE or action.transform in fusions
            if fits and action.site != "*":
                found.setdefault(action.site, {}).setdefault(operation, index)
    return tuple(_Layer(site=site, choices=by) for site, by in found.items())


def _operation(choice: Choice, fusions: frozenset[str]) -> int | None:
    for operation, family in _FAMILY.items():
        if choice.family == family:
            return operation
    names = {action.transform for action in choice.alternatives[1]}
    return FUSE if names & fusions else None
