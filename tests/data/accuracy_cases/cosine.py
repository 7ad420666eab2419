"""Two embeddings against the baseline's."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase

_RIGHT = [{"e": np.array([[1.0, 2.0, 3.0]], np.float32)}, {"e": np.array([[0.0, 1.0, 0.0]])}]

CASE = AccuracyCase(
    targets=[None, None],
    right=_RIGHT,
    worse=[_RIGHT[0], {"e": np.array([[1.0, 1.0, 0.0]])}],
    misfits=[({"e": np.zeros((1, 4), np.float32)}, None), ({}, None)],
)
