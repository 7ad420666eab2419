"""Quality of a front as numbers: hypervolume, knee. The only file that imports moocore."""

import moocore  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import numpy.typing as npt

from edgeopt.core.front import Front
from edgeopt.core.trial import Trial

Matrix = npt.NDArray[np.float64]


def hypervolume(costs: Matrix, reference: npt.NDArray[np.float64]) -> float:
    """Volume between the minimised costs [n, objectives] and the reference point [objectives].

    Points that are not better than the reference everywhere add nothing. 0 for no points.
    """
    finite = costs[np.isfinite(costs).all(axis=1)]
    inside = finite[(finite < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    return float(moocore.hypervolume(inside, ref=reference))  # pyright: ignore


def knee(front: Front) -> Trial | None:
    """The member nearest to the ideal point after scaling every objective to its range.

    With one or two members there is no bend to find; the first member is returned.
    """
    if not front.members:
        return None
    costs = front.costs()
    low, high = costs.min(axis=0), costs.max(axis=0)
    scaled = (costs - low) / np.where(high > low, high - low, 1.0)
    return front.members[int(np.argmin(np.linalg.norm(scaled, axis=1)))]
