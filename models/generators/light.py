"""Smooth random pictures for networks with random weights: no labels, fidelity is what is asked.

Random grids of 3 to 112 cells, coarse ones strongest as in photographs, with a tint and a
contrast of its own a picture: outputs then differ between pictures even where a deep random
network would tell structure hardly apart.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image

VERSION = 1
SIDE = 224
GRIDS = {3: 1.0, 7: 0.7, 14: 0.5, 28: 0.35, 56: 0.2, 112: 0.12}
GREY, DEVIATION = 127.5, 50.0


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """uint8 [n, 3, 224, 224] under the name of the model's one input."""
    random = np.random.default_rng(seed)
    loaded = onnx.load(model, load_external_data=False)
    pictures = np.stack([picture(random) for _ in range(counts["samples"])])
    return {loaded.graph.input[0].name: pictures}


def picture(random: np.random.Generator) -> np.ndarray:
    """[3, 224, 224] uint8."""
    total = np.repeat(random.normal(0, 0.5, (3, 1, 1)), SIDE, axis=1).repeat(SIDE, axis=2)
    for cells, strength in GRIDS.items():
        grid = random.normal(0, strength / 1.4, (3, cells, cells)).astype(np.float32)
        total += np.stack([_enlarged(channel) for channel in grid])
    grey = GREY + DEVIATION * float(random.uniform(0.5, 1.5)) * total
    return np.clip(np.rint(grey / 2) * 2, 0, 255).astype(np.uint8)


def _enlarged(channel: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(channel).resize((SIDE, SIDE), Image.Resampling.BICUBIC))
