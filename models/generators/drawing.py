"""Text and camera effects on grey images, the same on every machine.

Fonts come from registry packages named in the manifest, beside the one that Pillow ships, never
from the host: the same manifest draws the same words everywhere.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Font = ImageFont.FreeTypeFont

WORDS = (Path(__file__).parent / "words.txt").read_text().split()


def fonts(assets: Mapping[str, Path], size: int) -> list[Font]:
    """Pillow's own face and every TrueType file among the assets, at one size in pixels."""
    files = sorted(path for name, path in assets.items() if name.endswith(".ttf"))
    own = ImageFont.load_default(size=size)
    if not isinstance(own, ImageFont.FreeTypeFont):
        raise RuntimeError("Pillow was built without FreeType: text cannot be drawn")
    return [own, *(ImageFont.truetype(str(path), size) for path in files)]


def phrase(random: np.random.Generator, longest: int) -> str:
    """Words, numbers and codes up to a length in characters, as on labels and invoices."""
    parts: list[str] = []
    while True:
        kind = random.random()
        word = str(random.choice(WORDS))
        if kind < 0.15:
            word = str(random.integers(10, 100000))
        elif kind < 0.22:
            word = f"{random.integers(1, 1000)}.{random.integers(0, 100):02d}"
        elif kind < 0.45:
            word = word.capitalize()
        elif kind < 0.55:
            word = word.upper()
        if len(" ".join([*parts, word])) > longest:
            return " ".join(parts) or word[:longest]
        parts.append(word)


def text_box(font: Font, text: str) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of the inked area when drawn at the origin, in pixels."""
    left, top, right, bottom = font.getbbox(text)
    return int(np.floor(left)), int(np.floor(top)), int(np.ceil(right)), int(np.ceil(bottom))


def line(font: Font, text: str, ink: int, paper: int, margin: int) -> Image.Image:
    """One line of text, cropped to its ink plus a margin."""
    left, top, right, bottom = text_box(font, text)
    image = Image.new("L", (right - left + 2 * margin, bottom - top + 2 * margin), paper)
    ImageDraw.Draw(image).text((margin - left, margin - top), text, fill=ink, font=font)
    return image


def fit(image: Image.Image, size: tuple[int, int], paper: int) -> Image.Image:
    """Scaled to the height, squeezed where too wide, padded on the right: (width, height)."""
    width, height = size
    wide = min(width, max(1, round(image.width * height / image.height)))
    canvas = Image.new("L", size, paper)
    canvas.paste(image.resize((wide, height), Image.Resampling.BILINEAR), (0, 0))
    return canvas


def blur(image: Image.Image, radius: float) -> Image.Image:
    """Gaussian blur; the radius is the standard deviation in pixels."""
    return image.filter(ImageFilter.GaussianBlur(radius))


def shrink(image: Image.Image, factor: float) -> Image.Image:
    """Down and up again: what a low resolution scan keeps."""
    small = (max(1, round(image.width / factor)), max(1, round(image.height / factor)))
    down = image.resize(small, Image.Resampling.BILINEAR)
    return down.resize(image.size, Image.Resampling.BILINEAR)


def noisy(
    image: Image.Image, random: np.random.Generator, deviation: float, step: int = 1
) -> np.ndarray:
    """The image as uint8 with Gaussian noise of that deviation, in grey levels `step` apart.

    Noise hardly compresses: coarser levels keep large pages small on disk.
    """
    grey = np.asarray(image, dtype=np.float32)
    grey = grey + random.normal(0.0, deviation, grey.shape).astype(np.float32)
    return (np.clip(np.rint(grey / step), 0, 255 // step) * step).astype(np.uint8)


def contrast(random: np.random.Generator, least: int, most: int) -> tuple[int, int]:
    """Ink and paper grey levels at a drawn distance; one in five is light on dark."""
    distance = int(random.integers(least, most))
    dark = int(random.integers(0, 255 - distance))
    pair = (dark, dark + distance)
    return pair if random.random() < 0.8 else pair[::-1]


def colour(grey: np.ndarray) -> np.ndarray:
    """[height, width] to [3, height, width]: the three equal channels that the networks take."""
    return np.repeat(grey[None], 3, axis=0)


def pick(random: np.random.Generator, faces: Sequence[Font]) -> Font:
    """One of the faces."""
    return faces[int(random.integers(len(faces)))]
