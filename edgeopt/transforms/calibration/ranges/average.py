"""The mean over samples of each sample's extremes: the moving average of runtimes' tools.

Samples with outliers are clipped, ordinary ones hardly. With one sample it is `minmax`.
"""

from edgeopt.transforms.base import Range
from edgeopt.transforms.calibration.observation import Observation


def mean_extremes(seen: Observation) -> Range:
    """Mean least and mean largest element of a sample."""
    return Range(low=seen.low_sum / seen.samples, high=seen.high_sum / seen.samples)


PLUGIN = mean_extremes
