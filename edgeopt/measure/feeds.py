"""Feeds as the agent reads them: one npz, keys `<number>/<input name>`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeopt.core.data import Feed
from edgeopt.errors import DataError, StorageError


def write_feeds(feeds: Sequence[Feed], path: Path) -> None:
    """Write samples so that the agent rotates over them in this order.

    Equal feeds give equal bytes. Five or more different ones keep a cache from learning one.

    Raises:
        DataError: There is no feed, or an array that only Python could read back.
        StorageError: The file cannot be written.
    """
    if not feeds:
        raise DataError("there is no sample to run the model on", hint="give at least one feed")
    arrays: dict[str, Any] = {}
    for number, feed in enumerate(feeds):
        for name, array in feed.items():
            if array.dtype.hasobject:
                raise DataError(
                    "the array holds Python objects",
                    where=f"sample {number}, input {name!r}",
                    hint="store text as a numpy string array",
                )
            arrays[f"{number}/{name}"] = array
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as stream:
            cast("Any", np.savez)(stream, **arrays)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StorageError(
            f"the feeds cannot be written: {error.strerror or error}",
            where=str(path),
            hint="free space there, or choose another folder",
        ) from error
