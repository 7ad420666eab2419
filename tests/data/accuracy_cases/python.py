"""A user's function: minus the absolute error."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase

_RIGHT = [{"y": np.array([1.5])}, {"y": np.array([2.5])}]


def closeness(outputs: dict[str, np.ndarray], target: np.ndarray) -> float:
    """1 minus the distance; nothing that is not a number comes near."""
    return float(np.nan_to_num(1 - abs(outputs["y"][0] - target), nan=-1.0))


CASE = AccuracyCase(
    options={"function": f"{__file__}:closeness"},
    targets=[np.array(1.5), np.array(2.5)],
    right=_RIGHT,
    worse=[_RIGHT[0], {"y": np.array([2.0])}],
    misfits=[({"z": np.array([1.0])}, np.array(1.0)), (_RIGHT[0], np.array("text"))],
)
