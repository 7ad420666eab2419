"""`rl_mlp`: the RL compiler's flat formulation: PPO with an MLP over operations and layers.

It learns from the device's tables. Every so many steps the plan that an episode ended in is
measured: before the next rollout the tables are refitted to that, and a plan that was measured
counts with its own values. A plain network on a flat observation learns each model from nothing:
it is the control beside `ilp` and `portfolio` (`benchmarks/rl_compiler.py`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.candidate import Candidate
from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.core.trial import Trial
from edgeopt.search import codes as coding
from edgeopt.search.archive import Archive
from edgeopt.search.assigned import Assigned, PlanCosts
from edgeopt.search.codes import Codes
from edgeopt.search.flat_policy import FlatPolicy, require
from edgeopt.search.remembered import Remembered
from edgeopt.search.surrogate import Surrogate

EVERY = 100
"""Steps of the learner for each measurement."""
ROLLOUT = 2048
_PATIENCE = 3
"""Rollouts without a plan that is new, before it gives up."""


class FlatReinforcement:
    """Proposes the plans that episodes of the learner end in.

    Args:
        space, seed, objectives, estimator: As every strategy.
        rollout, every: Steps between updates, and for each measurement.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        objectives: tuple[Objective, ...],
        estimator: Estimator | None,
        rollout: int,
        every: int,
    ) -> None:
        self._space, self._seed = Remembered(space), seed
        self._objectives, self._estimator = objectives, estimator
        self._rollout, self._every = rollout, every
        self._archive = Archive(space)
        self._surrogate = Surrogate(self._space, objectives, estimator, self._archive)
        self._learning: tuple[Assigned, PlanCosts, FlatPolicy] | None = None
        self._queue: list[Codes] = []

    @property
    def policy(self) -> FlatPolicy | None:
        """The learner; None before anything was told."""
        return None if self._learning is None else self._learning[2]

    def ask(self, count: int) -> Sequence[Candidate]:
        """Plans of the latest rollout; where they are used up those of the next."""
        if not self._archive.told or not self._space.choices or not self._objectives:
            return tuple(self._archive.new(self._beginning(), count))
        found: list[Candidate] = []
        for _ in range(_PATIENCE):
            if found or count < 1:
                break
            self._queue = self._queue or self._rolled_out()
            while self._queue and len(found) < count:
                found += self._archive.new([self._queue.pop(0)], 1)
        return tuple(found)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Every trial counts, whoever asked for it."""
        self._archive.tell(trials)
        if self._estimator is not None:
            self._estimator.learn(trials)

    def greedy(self) -> Candidate | None:
        """What the policy does when it draws nothing; None before it has learned."""
        if self._learning is None:
            return None
        plans, _, policy = self._learning
        runtime = next(self._space.guesses())[1].runtime
        return Candidate(recipe=plans.real(policy.greedy()), runtime=runtime)

    def _beginning(self) -> Sequence[Codes]:
        """Something must be known before anything is predicted."""
        start = tuple(coding.starting(choice) for choice in self._space.choices)
        return ((0,) * len(start), start)

    def _rolled_out(self) -> list[Codes]:
        """One rollout on tables that know every trial: of each `every` steps the next end."""
        plans, costs, policy = self._ready()
        plans.use(self._surrogate.tables([float(n == 0) for n in range(len(self._objectives))]))
        costs.known = self._measured()
        found: list[Codes] = []
        due = policy.steps
        for episode in policy.rollout():
            if episode.step >= due:
                found.append(plans.codes(episode.plan))
                due = episode.step - episode.step % self._every + self._every
        return found

    def _ready(self) -> tuple[Assigned, PlanCosts, FlatPolicy]:
        self._surrogate.refit()
        if self._learning is None:
            plans = Assigned(self._space)
            costs = PlanCosts(plans)
            limit = self._allowed()
            policy = FlatPolicy(
                plans, costs, seed=self._seed, allowed_drop=limit, rollout=self._rollout
            )
            self._learning = plans, costs, policy
        return self._learning

    def _allowed(self) -> float | None:
        """What may be lost, in the unit of the tables; None where nothing bounds it."""
        limits = zip(self._surrogate.limits(), self._objectives, strict=True)
        found = [float(limit) for limit, each in limits if each.direction == "max"]
        return found[0] if found and np.isfinite(found[0]) else None

    def _measured(self) -> dict[Codes, npt.NDArray[np.float64]]:
        """Costs of every row that was measured, as tables have them; a failure is none."""
        known: dict[Codes, npt.NDArray[np.float64]] = {}
        for row, trial in self._archive.told.items():
            costs = self._surrogate.relative(trial)
            if costs is not None:
                known[row] = self._as_plan(row, costs)
        return known

    def _as_plan(self, row: Codes, costs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        assert self._learning is not None
        size = self._learning[0].table.costs(np.array([row]))[0, 1]
        drops = [
            c for c, each in zip(costs, self._objectives, strict=True) if each.direction == "max"
        ]
        return np.array([1.0 + costs[0], size, drops[0] if drops else 0.0])


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
    rollout: int = ROLLOUT,
    every: int = EVERY,
) -> FlatReinforcement:
    """The learner over the space's choices.

    Raises:
        UsageError: Stable-Baselines3 or torch is not installed.
    """
    require()
    return FlatReinforcement(space, seed, objectives, estimator, rollout, every)


PLUGIN: StrategyFactory = make
