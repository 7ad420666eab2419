"""Captchas: 1 x 64 x 192, the label is the text; scored by character error rate, case ignored.

Four to six letters and digits in one face, each turned and shifted on its own, under strokes and
noise. Characters that look alike in either case (0 and o, 1, i and l) are left out, as captchas
do. The charset is read out of the package's own source, which is parsed and never run.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from . import drawing

VERSION = 1
SIZE = (192, 64)
LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789"
SOURCE = "ddddocr-charsets.py"


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`input1` uint8 [n, 1, 64, 192] and `label` texts [n]; the charset as a metric option."""
    random = np.random.default_rng(seed)
    faces = drawing.fonts(assets, 40)
    images: list[np.ndarray] = []
    texts: list[str] = []
    for _ in range(counts["samples"]):
        text = "".join(random.choice(list(LETTERS), int(random.integers(4, 7))).tolist())
        images.append(captcha(random, drawing.pick(random, faces), text)[None])
        texts.append(text)
    options = {"charset": charset(assets[SOURCE].read_text(encoding="utf-8"))}
    return {"input1": np.stack(images), "label": np.array(texts), "metric_options": options}


def charset(source: str) -> list[str]:
    """A text a class; class 0 is the blank.

    Raises:
        ValueError: The source assigns no list to CHARSET_BETA.
    """
    for statement in ast.parse(source).body:
        if (
            isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "CHARSET_BETA"
        ):
            return [str(text) for text in ast.literal_eval(statement.value)]
    raise ValueError("the source assigns no CHARSET_BETA")


def captcha(random: np.random.Generator, face: drawing.Font, text: str) -> np.ndarray:
    """[64, 192] uint8: the text under strokes and noise."""
    ink, paper = drawing.contrast(random, 60, 220)
    image = _letters(random, face, text, ink, paper)
    _strokes(random, image, ink)
    image = drawing.blur(image, float(random.uniform(0.0, 1.2)))
    return drawing.noisy(image, random, float(random.uniform(4.0, 40.0)), step=4)


def _letters(
    random: np.random.Generator, face: drawing.Font, text: str, ink: int, paper: int
) -> Image.Image:
    """Each letter in a column of its own, turned by up to 20 degrees."""
    canvas = Image.new("L", SIZE, paper)
    step = (SIZE[0] - 16) / len(text)
    for index, letter in enumerate(text):
        tile = drawing.line(face, letter, 255, 0, 4)
        tile = tile.rotate(float(random.uniform(-20, 20)), Image.Resampling.BICUBIC, expand=True)
        left = 8 + (index + 0.5) * step - tile.width / 2 + random.uniform(-2, 2)
        top = (SIZE[1] - tile.height) / 2 + random.uniform(-6, 6)
        canvas.paste(ink, (round(left), round(top)), tile)
    return canvas


def _strokes(random: np.random.Generator, image: Image.Image, ink: int) -> None:
    """Up to three thin lines across the picture in the letters' own grey."""
    pen = ImageDraw.Draw(image)
    for _ in range(int(random.integers(0, 4))):
        ends = [(int(x), int(random.integers(SIZE[1]))) for x in (0, SIZE[0])]
        pen.line(ends, fill=ink, width=int(random.integers(1, 3)))
