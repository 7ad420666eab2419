"""`planner`: plans on a surrogate that is refitted after every batch, and what is near to them.

Integer programs over the surrogate's additive part, half of them on tables drawn from its
posterior, for a sweep of drops about the bound and of weights on the size. A plan and everything
that differs from it in one choice are predicted by the whole surrogate; what should gain most
hypervolume is measured.
"""

from edgeopt.core.estimates import Estimator
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, StrategyFactory
from edgeopt.search.modelled import Modelled
from edgeopt.search.proposers import planned


def make(
    space: Space,
    *,
    seed: int,
    objectives: tuple[Objective, ...],
    estimator: Estimator | None = None,
) -> Modelled:
    """Plans over the space's choices; the seed draws tables and predictions."""
    return Modelled(space, seed, objectives, estimator, {"planner": planned})


PLUGIN: StrategyFactory = make
