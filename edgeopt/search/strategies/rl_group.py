"""`rl_group`: a policy alone, trained by imitation, then by groups of rollouts without a critic."""

from functools import partial

from edgeopt.core.protocols import StrategyFactory
from edgeopt.search.policy.alone import alone

PLUGIN: StrategyFactory = partial(alone, "rl_group")
