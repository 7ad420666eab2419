"""Four samples of three classes."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase

_CLASSES = [0, 2, 1, 2]
_RIGHT = [{"y": np.eye(3, dtype=np.float32)[[label]]} for label in _CLASSES]

CASE = AccuracyCase(
    targets=[np.array(label) for label in _CLASSES],
    right=_RIGHT,
    worse=[*_RIGHT[:3], {"y": np.eye(3, dtype=np.float32)[[0]]}],
    misfits=[
        (_RIGHT[0], np.array([0, 1])),
        (_RIGHT[0], np.array(3)),
        (_RIGHT[0], np.array(0.5)),
        (_RIGHT[0], np.array("cat")),
        (_RIGHT[0], None),
        ({"y": np.zeros((1, 1), np.float32)}, np.array(0)),
    ],
)
