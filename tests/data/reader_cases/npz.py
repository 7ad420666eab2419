"""Images with labels, and the same file with one mistake at a time."""

from pathlib import Path

import numpy as np
from data_models import IMAGES

from edgeopt.data.options import DataOptions
from edgeopt.testing.reader_exam import ReaderCase


def case(folder: Path) -> ReaderCase:
    """Twenty images of float32 and their broken variants."""
    x = np.random.default_rng(0).normal(size=(20, 3, 8, 8)).astype(np.float32)
    label = np.arange(20) % 10

    def write(name: str, **arrays: np.ndarray) -> str:
        path = folder / f"{name}.npz"
        np.savez(path, **arrays)
        return str(path)

    nan = x.copy()
    nan[7, 1, 2, 3] = np.nan
    objects = np.array([None] * 20)
    good = write("good", x=x, label=label)
    content = Path(good).read_bytes()
    (folder / "cut.npz").write_bytes(content[: len(content) // 2])
    (folder / "empty.npz").write_bytes(b"")
    (folder / "text.npz").write_text("x,y\n1,2\n")
    (folder / "lfs.npz").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    np.save(folder / "single.npy", x)
    return ReaderCase(
        spec=good,
        model=IMAGES,
        options=DataOptions(),
        count=20,
        broken={
            "a value that is not a number": write("nan", x=nan, label=label),
            "infinity": write("inf", x=np.where(np.isnan(nan), np.inf, nan), label=label),
            "an unknown input": write("unknown", X=x, label=label),
            "a missing input": write("missing", label=label),
            "fewer labels": write("labels", x=x, label=label[:19]),
            "fewer images": write("images", x=x[:19], label=label),
            "channels last": write("layout", x=np.moveaxis(x, 1, 3), label=label),
            "an axis too few": write("rank", x=x[0, 0], label=label),
            "integers for floats": write("integers", x=x.astype(np.int32), label=label),
            "pixels without preprocess": write("pixels", x=x.astype(np.uint8), label=label),
            "pickled inputs": write("objects", x=objects, label=label),
            "pickled labels": write("pickled", x=x, label=objects),
            "labels that are not numbers": write("nanlabel", x=x, label=np.full(20, np.nan)),
            "fractional groups": write("groups", x=x, label=label, group=label / 2),
            "no samples": write("none", x=x[:0], label=label[:0]),
            "a description that is no JSON": write("json", x=x, edgeopt=np.array("{")),
            "half a file": str(folder / "cut.npz"),
            "an empty file": str(folder / "empty.npz"),
            "a text": str(folder / "text.npz"),
            "a Git LFS pointer": str(folder / "lfs.npz"),
            "a single array": str(folder / "single.npy"),
            "no file": str(folder / "absent.npz"),
        },
    )
