"""Two samples against the baseline's decisions."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase

_RIGHT = [{"y": np.array([[1.0, 2.0]], np.float32)}, {"y": np.array([[3.0, 1.0]], np.float32)}]

CASE = AccuracyCase(
    targets=[None, None],
    right=_RIGHT,
    worse=[_RIGHT[0], {"y": np.array([[0.0, 1.0]], np.float32)}],
    misfits=[({"y": np.zeros((1, 3), np.float32)}, None), ({}, None)],
)
