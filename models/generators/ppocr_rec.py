"""Exact text lines: 3 x 48 x 320, the label is the text; scored by character error rate.

The padding on the right is mid grey, as in the network's own pipeline, where it is 0 after
normalization. The charset is the network's own, from its metadata.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from . import drawing

VERSION = 2
SIZE = (320, 48)
PADDING = 127


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`x` uint8 [n, 3, 48, 320] and `label` texts [n]; the charset as a metric option."""
    random = np.random.default_rng(seed)
    faces = [face for size in (28, 40) for face in drawing.fonts(assets, size)]
    images: list[np.ndarray] = []
    texts: list[str] = []
    for _ in range(counts["samples"]):
        text = drawing.phrase(random, int(random.integers(6, 18)))
        images.append(drawing.colour(_line(random, faces, text)))
        texts.append(text)
    options = {"charset": charset(model)}
    return {"x": np.stack(images), "label": np.array(texts), "metric_options": options}


def charset(model: Path) -> list[str]:
    """A text a class; class 0 is the blank, the last class a space."""
    loaded = onnx.load(model, load_external_data=False)
    metadata = {pair.key: pair.value for pair in loaded.metadata_props}
    return ["", *metadata["character"].split("\n"), " "]


def _line(random: np.random.Generator, faces: list[drawing.Font], text: str) -> np.ndarray:
    ink, paper = drawing.contrast(random, 50, 230)
    image = drawing.line(drawing.pick(random, faces), text, ink, paper, int(random.integers(3, 9)))
    image = drawing.shrink(image, float(random.uniform(1.0, 2.7)))
    image = drawing.blur(image, float(random.uniform(0.0, 1.25)))
    image = drawing.fit(image, SIZE, PADDING)
    grey = drawing.noisy(image, random, float(random.uniform(0.0, 32.0)))
    used = min(SIZE[0], round(image.width * SIZE[1] / image.height))
    grey[:, used:] = PADDING
    return grey
