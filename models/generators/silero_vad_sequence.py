"""Whole recordings of speech and noise: every frame of one in a single feed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import speech

VERSION = 2


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`input` float32 [n, frames, 576], `h` and `c` zeros [1, 1, 128], `label` [n, frames]."""
    made = list(speech.recordings(seed, counts, assets))
    return {
        "input": np.stack([speech.framed(signal) for signal, _ in made]),
        "h": np.zeros((1, 1, 128), np.float32),
        "c": np.zeros((1, 1, 128), np.float32),
        "label": np.stack([label for _, label in made]),
    }
