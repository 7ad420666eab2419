"""`StaticCostEvaluator`: exact figures of the built graph as costs, for training without a device.

Deterministic and free of a device, and therefore no claim about latency: fewer multiplications
are often not faster. It is what makes an environment reproducible.
"""

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Recipe
from edgeopt.core.protocols import Space

METRICS = ("macs", "size_bytes", "activation_bytes")


class StaticCostEvaluator:
    """Implements `core.protocols.Evaluator` by `Space.static_cost`.

    Args:
        space: Whose recipes are evaluated.
        metrics: Which figures, in the order of the reward vector.
    """

    deterministic = True

    def __init__(self, space: Space, metrics: tuple[str, ...] = METRICS) -> None:
        self._space = space
        self.metrics = metrics

    def costs(self, recipe: Recipe) -> npt.NDArray[np.float64]:
        """[metrics], as counted in the graph."""
        found = self._space.static_cost(recipe)
        return np.array([found[metric] for metric in self.metrics], dtype=np.float64)
