"""Frames of two recordings, speech or not."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase

_RIGHT = [
    {"p": np.array([[0.1], [0.9], [0.8]], np.float32)},
    {"p": np.array([[0.7], [0.2], [0.3]], np.float32)},
]

CASE = AccuracyCase(
    targets=[np.array([0, 1, 1]), np.array([1, 0, 0])],
    right=_RIGHT,
    worse=[_RIGHT[0], {"p": np.array([[0.2], [0.25], [0.3]], np.float32)}],
    misfits=[
        (_RIGHT[0], np.array([0, 1])),
        (_RIGHT[0], np.array([0, 1, 2])),
        (_RIGHT[0], None),
        ({"p": np.zeros((1, 3), np.float32)}, np.array(1)),
    ],
)
