"""The extremes of all samples: nothing is clipped, and one outlier coarsens everything."""

from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.observation import Observation


def extremes(seen: Observation) -> Range:
    """The least and the largest element."""
    return Range(low=seen.low, high=seen.high)


PLUGIN = extremes
