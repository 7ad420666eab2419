"""A folder of images, one class a subfolder. Labels are the places of the sorted folder names.

Needs a `preprocess`, from the options or from `edgeopt.json` in the folder. Images are decoded
and resized once, kept as uint8, and normalised on access.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from edgeopt.core.model import Model, TensorSpec
from edgeopt.data.check import describe, fits
from edgeopt.data.columns import Column, Columns
from edgeopt.data.options import DataOptions, parse_description
from edgeopt.data.preprocess import Layout, Preprocess, image_layout
from edgeopt.data.source import Source
from edgeopt.errors import DataError

DESCRIPTION = "edgeopt.json"
_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm"})


class FolderReader:
    """See the module."""

    def accepts(self, spec: str) -> bool:
        """Existing folders."""
        return Path(spec).is_dir()

    def declared(self, spec: str) -> Mapping[str, Any]:
        """The content of `edgeopt.json`, where there is one.

        Raises:
            DataError: It cannot be read.
        """
        path = Path(spec) / DESCRIPTION
        if not path.is_file():
            return {}
        return parse_description(path.read_text(encoding="utf-8"), str(path))

    def read(self, spec: str, model: Model, options: DataOptions) -> Source:
        """All images, in the order of their paths.

        Raises:
            DataError: No images, an image that cannot be decoded, no or another preprocess, or a
                model that takes something else than images.
        """
        given = _image_input(model, spec)
        preprocess, layout, size = _how(options, given, spec)
        classes = sorted(p.name for p in Path(spec).iterdir() if p.is_dir() and _images(p))
        paths = [
            (label, p) for label, name in enumerate(classes) for p in _images(Path(spec, name))
        ]
        if not paths:
            raise DataError(
                "there are no images in subfolders",
                where=spec,
                hint="one subfolder a class, with png, jpeg, bmp, tiff or webp files in it",
            )
        pixels = np.stack([_pixels(path, preprocess, size, layout) for _, path in paths])
        column = Column(
            array=pixels, mode="rows", preprocess=preprocess, layout=layout, dtype=given.dtype
        )
        columns = Columns({given.name: column})
        return Source(
            count=len(paths),
            stored=columns.stored,
            feed=columns.feed,
            target=np.array([label for label, _ in paths], dtype=np.int64),
            metric_options={"classes": tuple(classes)},
        )


def _image_input(model: Model, spec: str) -> TensorSpec:
    if len(model.inputs) != 1 or model.inputs[0].rank not in (4, None):
        taken = ", ".join(f"{i.name} {describe(i.dtype, i.shape)}" for i in model.inputs)
        raise DataError(
            f"a folder of images serves a model with one image input; this one takes {taken}",
            where=spec,
            hint="write an .npz whose keys are the input names",
        )
    return model.inputs[0]


def _how(
    options: DataOptions, given: TensorSpec, spec: str
) -> tuple[Preprocess, Layout, tuple[int, int]]:
    if not options.preprocess:
        raise DataError(
            "a folder of images needs a preprocess: how pixels become the model's input",
            where=spec,
            hint=f'put it into {DESCRIPTION} in the folder, for example {{"preprocess": {{"size": '
            "[224, 224], "
            '"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "channels": "rgb"}}',
        )
    preprocess = Preprocess.of(options.preprocess, spec)
    layout = preprocess.layout or image_layout(given.shape)
    if layout is None:
        raise DataError("it cannot be told where the channels are", where=spec, hint="give layout")
    axes = (2, 3) if layout == "nchw" else (1, 2)
    own = given.shape or (None,) * 4
    height, width = preprocess.size or (own[axes[0]], own[axes[1]])
    if not isinstance(height, int) or not isinstance(width, int):
        raise DataError(
            "the model leaves the image size free, so preprocess must say it",
            where=spec,
            hint='for example "size": [224, 224]',
        )
    depth = 1 if preprocess.channels == "gray" else 3
    shape = (1, depth, height, width) if layout == "nchw" else (1, height, width, depth)
    if not fits(shape, given.shape):
        raise DataError(
            f"the preprocess makes {list(shape)}, the model takes "
            f"{describe(given.dtype, given.shape)}",
            where=f"{spec}, {given.name}",
            hint="check size, channels and layout",
        )
    if {len(preprocess.mean), len(preprocess.std)} - {1, depth}:
        raise DataError(f"mean and std have 1 or {depth} numbers here", where=spec)
    return preprocess, layout, (height, width)


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file())


def _pixels(path: Path, preprocess: Preprocess, size: tuple[int, int], layout: Layout) -> Any:
    try:
        with Image.open(path) as opened:
            return preprocess.image(opened, size, layout)
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"the image cannot be decoded ({type(error).__name__})",
            where=str(path),
            hint="remove the file, or save the image again",
        ) from error


PLUGIN = FolderReader()
