"""Observations on disk, a file for each graph and data set: a next run need not look again."""

import contextlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.calibration.observation import Channels, Observation

_FORMAT = 1
_FIELDS = ("low", "high", "low_sum", "high_sum", "samples", "limit", "zeros")


class Archive:
    """Observations by value digest, in files.

    Args:
        folder: Of the files, created on first use; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, name: str) -> dict[str, Observation]:
        """What was stored under a name; empty where nothing was, or the file is damaged."""
        path = self._path(name)
        if path is None or not path.is_file():
            return {}
        try:
            with np.load(path, allow_pickle=False) as held:
                return _read({key: held[key] for key in held.files})
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return {}

    def store(self, name: str, seen: Mapping[str, Observation]) -> None:
        """Write a file aside, then put it in place; several processes may do so at once.

        A folder that cannot be written is no error: the next run looks at the samples again.
        """
        path = self._path(name)
        if path is None:
            return
        aside = path.with_suffix(f".{os.getpid()}.aside")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as stream:
                np.savez_compressed(stream, allow_pickle=False, **_written(seen))
            aside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)

    def _path(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{name}.npz"


def _written(seen: Mapping[str, Observation]) -> dict[str, npt.NDArray[Any]]:
    rows = [[float(getattr(one, field)) for field in _FIELDS] for one in seen.values()]
    arrays: dict[str, npt.NDArray[Any]] = {
        "format": np.array(_FORMAT),
        "keys": np.array(list(seen), np.str_),
        "rows": np.array(rows, np.float64).reshape(len(rows), len(_FIELDS)),
        "counts": np.array([one.counts for one in seen.values()]),
    }
    for index, one in enumerate(seen.values()):
        for axis, found in one.channels.items():
            name = f"{index}/{axis}"
            if found is None:
                arrays[name] = np.zeros((0, 0))
                continue
            size = np.full(found.low.shape, float(found.count))
            arrays[name] = np.stack([found.low, found.high, found.total, size])
    return arrays


def _read(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Observation]:
    if int(arrays["format"]) != _FORMAT:
        return {}
    found: dict[str, Observation] = {}
    rows = zip(arrays["keys"], arrays["rows"], arrays["counts"], strict=True)
    for key, row, counts in rows:
        fields = dict(zip(_FIELDS, map(float, row), strict=True))
        samples = int(fields.pop("samples"))
        found[str(key)] = Observation(**fields, samples=samples, counts=counts.astype(np.float64))  # pyright: ignore[reportArgumentType]
    listed = list(found.values())
    for name, array in arrays.items():
        index, _, axis = name.partition("/")
        if axis:
            listed[int(index)].channels[int(axis)] = _channels(array)
    return found


def _channels(array: npt.NDArray[Any]) -> Channels | None:
    if not array.size:
        return None
    low, high, total, size = array
    return Channels(low=low, high=high, total=total, count=int(size[0]))
