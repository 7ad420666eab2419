"""Pages of text turned by 0, 90, 180 or 270 degrees: 3 x 224 x 224, label = quarter turns.

Few short lines, low contrast, blur and noise, as of a page photographed from afar, take the
unmodified network from every page to about nine in ten.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from . import drawing

VERSION = 2
SIDE = 224


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`x` uint8 [n, 3, 224, 224] and `label` int64 [n]."""
    random = np.random.default_rng(seed)
    faces = [face for size in (11, 14, 18) for face in drawing.fonts(assets, size)]
    labels = random.permutation(np.arange(counts["samples"]) % 4)
    pages = [drawing.colour(_page(random, faces, int(label))) for label in labels]
    return {"x": np.stack(pages), "label": labels.astype(np.int64)}


def _page(random: np.random.Generator, faces: list[drawing.Font], turns: int) -> np.ndarray:
    ink, paper = drawing.contrast(random, 60, 220)
    image = Image.new("L", (SIDE, SIDE), paper)
    pen, font = ImageDraw.Draw(image), drawing.pick(random, faces)
    left, top = int(random.integers(6, 70)), int(random.integers(6, 90))
    step = int(font.size * random.uniform(1.15, 1.9))
    for row in range(int(random.integers(3, 10))):
        text = drawing.phrase(random, int(random.integers(5, 34)))
        pen.text((left, top + row * step), text, fill=ink, font=font)
    image = image.rotate(float(random.uniform(-4, 4)), Image.Resampling.BILINEAR, fillcolor=paper)
    image = image.rotate(-90 * turns)
    image = drawing.shrink(image, float(random.uniform(1.0, 1.8)))
    image = drawing.blur(image, float(random.uniform(0.0, 1.2)))
    return drawing.noisy(image, random, float(random.uniform(0.0, 25.0)), step=17)
