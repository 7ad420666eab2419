"""`Preprocess`: from pixels as they are stored (uint8) to what a float input takes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.data.options import nearest
from edgeopt.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

Layout = Literal["nchw", "nhwc"]
_WORDS: Mapping[str, tuple[str, ...]] = {
    "channels": ("rgb", "bgr", "gray"),
    "layout": ("nchw", "nhwc"),
    "resize": ("stretch", "crop", "pad"),
    "filter": ("nearest", "bilinear", "bicubic", "lanczos"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """(pixel * scale - mean) / std, after resizing.

    Args:
        size: Height and width; None is the model's.
        scale: Applied to the pixel 0..255 first; 1/255 by default.
        mean: One number, or one a channel in the order of `channels`; after scaling.
        std: Likewise.
        channels: `rgb`, `bgr` or `gray`.
        layout: `nchw` or `nhwc`; None is found from the input's shape.
        resize: `stretch` to the size; `crop` the centre after scaling the short side; `pad`
            below and to the right after scaling to fit.
        short_side: For `crop`; by default the larger of height and width.
        fill: Pixel value for `pad`.
        filter: `nearest`, `bilinear`, `bicubic` or `lanczos`.
    """

    size: tuple[int, int] | None = None
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    channels: str = "rgb"
    layout: Layout | None = None
    resize: str = "stretch"
    short_side: int | None = None
    fill: int = 0
    filter: str = "bilinear"

    @staticmethod
    def of(given: Mapping[str, Any], where: str) -> "Preprocess":
        """From the keys of a description.

        Raises:
            DataError: An unknown key or an invalid value.
        """
        names = [field.name for field in fields(Preprocess)]
        for key, value in given.items():
            if key not in names:
                raise DataError(f"preprocess has no {key!r}", where=where, hint=nearest(key, names))
            if key in _WORDS and value is not None and value not in _WORDS[key]:
                raise DataError(
                    f"preprocess {key} is {value!r}, expected one of {', '.join(_WORDS[key])}",
                    where=where,
                )
        try:
            return Preprocess(**{key: _value(key, value) for key, value in given.items()})._sound()
        except (TypeError, ValueError) as error:
            raise DataError(
                f"preprocess has an invalid value ({error})",
                where=where,
                hint="size is [height, width]; mean and std are numbers, std is not 0",
            ) from error

    def _sound(self) -> "Preprocess":
        if 0.0 in self.std or not np.isfinite([*self.mean, *self.std, self.scale]).all():
            raise ValueError("mean, std and scale are finite, std is not 0")
        if self.size is not None and min(self.size) < 1:
            raise ValueError("a size is at least 1")
        return self

    def normalized(self, pixels: Array, layout: Layout | None) -> npt.NDArray[np.float32]:
        """Pixels [..., channels, height, width] or [..., height, width, channels] as floats."""
        shape = (-1, 1, 1) if layout == "nchw" else (-1,)
        mean, std = (
            np.asarray(v, np.float32).reshape(shape if len(v) > 1 else ())
            for v in (self.mean, self.std)
        )
        return (pixels.astype(np.float32) * np.float32(self.scale) - mean) / std

    def image(
        self, opened: "Image", size: tuple[int, int], layout: Layout
    ) -> npt.NDArray[np.uint8]:
        """An opened image as pixels of the wanted size, channels and layout, without batch axis."""
        gray = self.channels == "gray"
        resized = self._resized(opened.convert("L" if gray else "RGB"), size)
        pixels = np.asarray(resized, dtype=np.uint8)
        pixels = pixels[:, :, None] if gray else pixels
        pixels = pixels[:, :, ::-1] if self.channels == "bgr" else pixels
        return np.ascontiguousarray(pixels.transpose(2, 0, 1) if layout == "nchw" else pixels)

    def _resized(self, image: "Image", size: tuple[int, int]) -> "Image":
        from PIL import Image

        height, width = size
        method = Image.Resampling[self.filter.upper()]
        if self.resize == "stretch":
            return image.resize((width, height), method)
        if self.resize == "pad":
            ratio = min(height / image.height, width / image.width)
            inner = image.resize(_scaled(image, ratio, (width, height)), method)
            page = Image.new(image.mode, (width, height), (self.fill,) * len(image.getbands()))
            page.paste(inner, (0, 0))
            return page
        ratio = max((self.short_side or max(size)) / min(image.size), 1e-9)
        ratio = max(ratio, height / image.height, width / image.width)
        inner = image.resize((round(image.width * ratio), round(image.height * ratio)), method)
        left, top = (inner.width - width) // 2, (inner.height - height) // 2
        return inner.crop((left, top, left + width, top + height))


def _scaled(image: "Image", ratio: float, limit: tuple[int, int]) -> tuple[int, int]:
    return (
        min(limit[0], max(1, round(image.width * ratio))),
        min(limit[1], max(1, round(image.height * ratio))),
    )


def _value(key: str, value: Any) -> Any:
    if key == "size" and value is not None:
        height, width = _numbers(value) * (2 if isinstance(value, int) else 1)
        return int(height), int(width)
    if key in {"mean", "std"}:
        return _numbers(value)
    return _numbers(value)[0] if key == "scale" else value


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(np.atleast_1d(np.asarray(value, dtype=np.float64)).tolist())


def image_layout(shape: tuple[Any, ...] | None) -> Layout | None:
    """Where a rank-4 input has its channels; None where that cannot be told."""
    if shape is None or len(shape) != 4:
        return None
    if shape[1] in (1, 3, 4):
        return "nchw"
    if shape[3] in (1, 3, 4):
        return "nhwc"
    return "nchw" if isinstance(shape[1], int) and not isinstance(shape[3], int) else None
