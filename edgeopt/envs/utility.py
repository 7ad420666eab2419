"""Scalarization: one number from a cost vector and a preference; higher is better.

Costs are relative to the baseline's. Used as a potential (reward = utility after - utility
before, no discount), both scalarizations are sound for reinforcement learning: the return
telescopes to the utility of the final recipe, whatever the path.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Scalarization = Literal["chebyshev", "linear"]
_AUGMENTATION = 0.05


def utility(relative: Floats, preference: Floats, scalarization: Scalarization) -> float:
    """How good relative costs [metrics] are for a preference [metrics] that sums to 1.

    `linear` is the weighted sum, blind to the concave parts of a front. `chebyshev` is the worst
    weighted cost, with 5 % of the weighted sum added so that weakly dominated points lose.
    """
    weighted = preference * relative
    if scalarization == "linear":
        return -float(weighted.sum())
    return -float(weighted.max() * len(weighted) + _AUGMENTATION * weighted.sum())
