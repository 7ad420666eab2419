"""Text lines, half of them upside down: 3 x 48 x 192, label 1 = rotated by 180 degrees.

Low contrast, blur, noise and coarse scanning, each drawn anew for every line, take the
unmodified network from nearly everything to about nine in ten.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import drawing

VERSION = 1
SIZE = (192, 48)


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`x` uint8 [n, 3, 48, 192] and `label` int64 [n]."""
    random = np.random.default_rng(seed)
    faces = [face for size in (28, 40) for face in drawing.fonts(assets, size)]
    images: list[np.ndarray] = []
    labels = random.permutation(np.arange(counts["samples"]) % 2)
    for label in labels:
        images.append(drawing.colour(_line(random, faces, bool(label))))
    return {"x": np.stack(images), "label": labels.astype(np.int64)}


def _line(random: np.random.Generator, faces: list[drawing.Font], flipped: bool) -> np.ndarray:
    ink, paper = drawing.contrast(random, 60, 230)
    text = drawing.phrase(random, int(random.integers(4, 18)))
    image = drawing.line(drawing.pick(random, faces), text, ink, paper, int(random.integers(2, 9)))
    if flipped:
        image = image.rotate(180)
    image = drawing.fit(image, SIZE, paper)
    image = drawing.shrink(image, float(random.uniform(1.0, 2.0)))
    image = drawing.blur(image, float(random.uniform(0.0, 0.8)))
    return drawing.noisy(image, random, float(random.uniform(0.0, 20.0)))
