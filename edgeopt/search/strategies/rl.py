"""`rl`: a policy alone, trained by imitation and then by MaskablePPO."""

from functools import partial

from edgeopt.core.protocols import StrategyFactory
from edgeopt.search.policy.alone import alone

PLUGIN: StrategyFactory = partial(alone, "rl")
