"""`rl`: a policy alone, trained by imitation and then by MaskablePPO.

Its plans are predicted by the surrogate, and what should gain most hypervolume is measured: the
counterpart of `planner` and of `rl_group`. Needs neither torch nor any other package at run time.
"""

from pathlib import Path

from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.search.modelled import Modelled
from edgeopt.search.policy.source import opened


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
    policy: Path | None = None,
) -> Modelled:
    """The policy over the space's choices; the seed draws preferences and rollouts.

    Args:
        space, seed, objectives, estimator: As every strategy.
        policy: Weights of `edgeopt train`; None takes those that come with the package.
    """
    return Modelled(space, seed, objectives, estimator, {"policy": opened("rl", policy)})


PLUGIN: StrategyFactory = make
