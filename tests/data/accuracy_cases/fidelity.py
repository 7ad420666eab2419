"""Two outputs against the given model's."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase

_RIGHT = [{"y": np.array([[1.0, -2.0, 3.0]], np.float32)}, {"y": np.array([[0.0, 1.0, 0.0]])}]

CASE = AccuracyCase(
    targets=[None, None],
    right=_RIGHT,
    worse=[_RIGHT[0], {"y": np.array([[0.0, 1.1, 0.0]])}],
    misfits=[
        ({"y": np.zeros((3, 1), np.float32)}, None),
        ({"y": np.array([["a", "b", "c"]])}, None),
        ({}, None),
    ],
)
