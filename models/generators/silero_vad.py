"""Frames of speech and noise in order, a group a recording: the state runs along each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import speech

VERSION = 2


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`input` float32 [n, 576], `sr` int64 [], `label` int64 [n, 1], `group` int64 [n].

    The state input is not in the data: it starts at zeros and is fed on within a group.
    """
    made = list(speech.recordings(seed, counts, assets))
    groups = [np.full(len(label), index) for index, (_, label) in enumerate(made)]
    return {
        "input": np.concatenate([speech.framed(signal) for signal, _ in made]),
        "sr": np.array(speech.RATE, np.int64),
        "label": np.concatenate([label for _, label in made])[:, None],
        "group": np.concatenate(groups).astype(np.int64),
    }
