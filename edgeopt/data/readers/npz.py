"""`file.npz`: the keys are the model's input names, `label` and `group`; see `columns` for shapes.

The optional key `edgeopt` is a text holding JSON with the keys of `DataOptions`.
"""

import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeopt.core.data import Array
from edgeopt.core.model import Model, TensorSpec
from edgeopt.data.check import (
    cast,
    check_groups,
    check_labels,
    check_state,
    numpy_dtype,
    require_finite,
    require_names,
)
from edgeopt.data.columns import Column, Columns, count_samples, misfit, mode_of, zeros
from edgeopt.data.options import DataOptions, parse_description
from edgeopt.data.preprocess import Preprocess, image_layout
from edgeopt.data.source import Source
from edgeopt.errors import DataError

DESCRIPTION = "edgeopt"
_BESIDE = ("label", "group", DESCRIPTION)
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # an encrypted archive, an unknown compression
    MemoryError,  # a header that claims an array of any size
    OverflowError,
    tokenize.TokenError,  # numpy reads its header as Python
    SyntaxError,
)
"""What zipfile and numpy raise for files with some bytes changed; found by changing bytes."""


class NpzReader:
    """See the module."""

    def accepts(self, spec: str) -> bool:
        """Files that are called so, and archives by any name."""
        path = Path(spec)
        return path.suffix in {".npz", ".npy"} or (path.is_file() and zipfile.is_zipfile(path))

    def declared(self, spec: str) -> Mapping[str, Any]:
        """The JSON under `edgeopt`.

        Raises:
            DataError: The file or the JSON cannot be read.
        """
        found = _arrays(spec, only=(DESCRIPTION,))
        if DESCRIPTION not in found:
            return {}
        return parse_description(str(found[DESCRIPTION].astype(str).item()), f"{spec}, edgeopt")

    def read(self, spec: str, model: Model, options: DataOptions) -> Source:
        """All samples of the file; arrays are kept as they are stored.

        Raises:
            DataError: The file cannot be read or does not meet the model.
        """
        arrays = _arrays(spec)
        inputs = {name: array for name, array in arrays.items() if name not in _BESIDE}
        fed = set(options.state.values())
        require_names(inputs, model, optional=fed, where=spec)
        count = count_samples(arrays, model, spec)
        target = arrays.get("label")
        group = arrays.get("group")
        if target is not None:
            target = check_labels(target, count, where=f"{spec}, label")
        if group is not None:
            group = check_groups(group, count, where=f"{spec}, group")
        check_state(options.state, model, group, where=spec)
        counted = next((name for name in ("label", "group") if name in arrays), "the data")
        columns: dict[str, Column] = {}
        notes: list[str] = []
        for given in model.inputs:
            where = f"{spec}, {given.name}"
            if given.name not in inputs:
                columns[given.name] = Column(array=zeros(given), mode="constant")
                continue
            column, note = _column(inputs[given.name], given, count, counted, options, where)
            columns[given.name] = column
            notes += [note] if note else []
        _require_varying(columns, spec, count)
        found = Columns(columns)
        return Source(
            count=count,
            stored=found.stored,
            feed=found.feed,
            target=target,
            group=group,
            notes=tuple(notes),
        )


def _column(
    array: Array, spec: TensorSpec, count: int, counted: str, options: DataOptions, where: str
) -> tuple[Column, str]:
    if array.dtype.hasobject:
        cast(array, spec, where=where)
    mode = mode_of(array.shape, spec, count)
    if mode is None:
        raise misfit(array, spec, count, counted, where)
    dtype = numpy_dtype(spec)
    if array.dtype == np.uint8 and dtype is not None and dtype.kind == "f" and options.preprocess:
        preprocess = Preprocess.of(options.preprocess, where)
        layout = preprocess.layout or image_layout(spec.shape)
        _require_channels(preprocess, array, layout, where)
        return (
            Column(array=array, mode=mode, preprocess=preprocess, layout=layout, dtype=spec.dtype),
            "",
        )
    require_finite(array, where=where, rows=mode != "constant")
    found, note = cast(array, spec, where=where)
    return Column(array=found, mode=mode), note


def _require_channels(preprocess: Preprocess, array: Array, layout: str | None, where: str) -> None:
    numbers = max(len(preprocess.mean), len(preprocess.std))
    if numbers == 1:
        return
    if layout is None:
        raise DataError(
            "it cannot be told which axis holds the channels", where=where, hint="give the layout"
        )
    channels = array.shape[-3] if layout == "nchw" else array.shape[-1]
    if channels != numbers:
        raise DataError(
            f"mean and std have {numbers} numbers, the pixels {channels} channels",
            where=where,
            hint=f"the layout is taken as {layout}",
        )


def _require_varying(columns: Mapping[str, Column], spec: str, count: int) -> None:
    if count > 1 and all(column.mode == "constant" for column in columns.values()):
        raise DataError(
            f"no input has {count} entries, so every sample would be the same", where=spec
        )


def _arrays(spec: str, only: tuple[str, ...] | None = None) -> dict[str, Array]:
    path = Path(spec)
    if not path.is_file():
        raise DataError("there is no such file", where=spec, hint="check the path")
    try:
        with path.open("rb") as stream:  # numpy leaves a file open that it could not read
            opened = np.load(stream, allow_pickle=False)
            if not isinstance(opened, np.lib.npyio.NpzFile):
                raise DataError(
                    "this is a single array, not an .npz",
                    where=spec,
                    hint="write it with numpy.savez(path, input_name=array, label=labels)",
                )
            with opened:
                names = opened.files if only is None else [n for n in only if n in opened.files]
                return {name: _array(opened, name, spec) for name in names}
    except DAMAGED as error:
        raise _unreadable(path, error) from error


def _array(opened: Any, name: str, spec: str) -> Array:
    try:
        found: Array = opened[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise DataError(
            "the array holds Python objects, which are not read since unpickling runs code",
            where=f"{spec}, {name}",
            hint="store plain arrays (numbers, or texts with dtype=str)",
        ) from error
    return found


def _unreadable(path: Path, error: Exception) -> DataError:
    with path.open("rb") as stream:
        head = stream.read(64)
    if head.startswith(b"version https://git-lfs"):
        return DataError(
            "this is a Git LFS pointer, not the data itself",
            where=str(path),
            hint="fetch it with: git lfs pull",
        )
    if not head:
        return DataError("the file is empty", where=str(path), hint="write the data again")
    damaged = f"is damaged or cut short ({error})"
    return DataError(
        f"the file {damaged if head.startswith(b'PK') else 'is not an .npz archive'}",
        where=str(path),
        hint="write it with numpy.savez(path, input_name=array, label=labels)",
    )


PLUGIN = NpzReader()
