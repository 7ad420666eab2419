"""Two lines over the characters a, b and blank, as CTC probabilities [1, steps, 3]."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase


def _steps(*classes: int) -> dict[str, np.ndarray]:
    return {"y": np.eye(3, dtype=np.float32)[list(classes)][None]}


CASE = AccuracyCase(
    options={"charset": ["a", "b"]},
    targets=[np.array("aab"), np.array("b")],
    right=[_steps(1, 0, 1, 2, 2), _steps(0, 2, 2, 0, 0)],
    worse=[_steps(1, 1, 1, 2, 2), _steps(0, 2, 2, 0, 0)],
    misfits=[
        (_steps(1), np.array(3)),
        (_steps(1), None),
        ({"y": np.zeros((1, 5, 9), np.float32)}, np.array("a")),
        ({"y": np.zeros((2, 5, 3), np.float32)}, np.array("a")),
        ({"y": np.array([[1, 7]])}, np.array("a")),
    ],
)
