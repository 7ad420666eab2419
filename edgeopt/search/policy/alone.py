"""`alone`: a policy as a strategy of its own.

Its plans are predicted by the surrogate, and what should gain most hypervolume is measured: the
learned counterpart of `planner`. Needs neither torch nor any other package at run time.
"""

from pathlib import Path

from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.search.modelled import Modelled
from edgeopt.search.policy.source import opened


def alone(
    name: str,
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
    policy: Path | None = None,
) -> Modelled:
    """The policy over the space's choices; the seed draws preferences and rollouts.

    Args:
        name: Of the weights that come with the package.
        space, seed, objectives, estimator: As every strategy.
        policy: Weights of `edgeopt train`, in place of those.
    """
    return Modelled(space, seed, objectives, estimator, {"policy": opened(name, policy)})
