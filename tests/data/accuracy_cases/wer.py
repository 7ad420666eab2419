"""Two lines of words, as the strings that a model puts out."""

import numpy as np

from edgeopt.testing.accuracy_exam import AccuracyCase


def _text(text: str) -> dict[str, np.ndarray]:
    return {"y": np.array([text], dtype=object)}


CASE = AccuracyCase(
    targets=[np.array("turn the light on"), np.array("stop")],
    right=[_text("turn the light on"), _text("stop")],
    worse=[_text("turn light on"), _text("stop")],
    misfits=[(_text("stop"), np.array(1)), (_text("stop"), None)],
)
