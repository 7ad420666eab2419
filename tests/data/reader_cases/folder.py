"""Three folders of small pictures, and folders with one mistake each."""

import json
from pathlib import Path

import numpy as np
from data_models import IMAGES
from PIL import Image

from edgeopt.data.options import DataOptions
from edgeopt.testing.reader_exam import ReaderCase

_PREPROCESS = {"size": [8, 8], "mean": [0.4, 0.5, 0.6], "std": 0.25}


def case(folder: Path) -> ReaderCase:
    """Seven pictures a class, described by a file in the folder."""
    generator = np.random.default_rng(0)

    def write(name: str, preprocess: dict | None, suffix: str = "png") -> Path:
        root = folder / name
        for label in ("ant", "bee", "cat"):
            (root / label).mkdir(parents=True)
            for index in range(7):
                pixels = generator.integers(0, 256, (12, 10, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / label / f"{index}.{suffix}")
        if preprocess is not None:
            (root / "edgeopt.json").write_text(json.dumps({"preprocess": preprocess}))
        return root

    damaged = write("damaged", _PREPROCESS)
    (damaged / "bee" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n but no more")
    (folder / "bare" / "ant").mkdir(parents=True)
    (folder / "bare" / "edgeopt.json").write_text(json.dumps({"preprocess": _PREPROCESS}))
    return ReaderCase(
        spec=str(write("good", _PREPROCESS)),
        model=IMAGES,
        options=DataOptions(),
        count=21,
        broken={
            "no preprocess": str(write("plain", None)),
            "another size": str(write("size", {"size": [9, 8]})),
            "gray for colour": str(write("gray", {"channels": "gray"})),
            "an unknown key": str(write("key", {"sizes": [8, 8]})),
            "an unknown word": str(write("word", {"channels": "rbg"})),
            "a std of zero": str(write("std", {"std": 0})),
            "two means": str(write("means", {"mean": [0.5, 0.5]})),
            "a damaged image": str(damaged),
            "no images": str(folder / "bare"),
        },
    )
