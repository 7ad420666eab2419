"""How stored arrays become feeds: rows of a batch axis, whole feeds, or constants."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edgeopt.core.data import Array, Feed
from edgeopt.core.model import Model, TensorSpec
from edgeopt.data.check import describe, fits, numpy_dtype
from edgeopt.data.preprocess import Layout, Preprocess
from edgeopt.errors import DataError

Mode = Literal["rows", "whole", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One input's values for all samples.

    Args:
        array: As stored; samples are views of it.
        mode: `rows`: sample i is array[i:i+1]. `whole`: sample i is array[i]. `constant`: the
            array itself, for each sample.
        preprocess: How uint8 pixels become floats on access; None where nothing is encoded.
        layout: Where the channels of the pixels are.
        dtype: Of the decoded values.
    """

    array: Array
    mode: Mode
    preprocess: Preprocess | None = None
    layout: Layout | None = None
    dtype: str = "float32"

    def stored(self, index: int) -> Array:
        """A sample's values as stored: a view."""
        if self.mode == "rows":
            return self.array[index : index + 1]
        return self.array if self.mode == "constant" else self.array[index, ...]

    def feed(self, index: int) -> Array:
        """A sample's values as the model takes them."""
        found = self.stored(index)
        if self.preprocess is None:
            return found
        return self.preprocess.normalized(found, self.layout).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Columns:
    """All inputs of all samples."""

    by_name: Mapping[str, Column]

    def stored(self, index: int) -> Feed:
        """A sample's arrays as stored."""
        return {name: column.stored(index) for name, column in self.by_name.items()}

    def feed(self, index: int) -> Feed:
        """A sample's feed."""
        return {name: column.feed(index) for name, column in self.by_name.items()}


def zeros(spec: TensorSpec) -> Array:
    """What a state input starts from: zeros of its shape, free sizes 1.

    Raises:
        DataError: The model does not say the shape or the type.
    """
    dtype = numpy_dtype(spec)
    if spec.shape is None or dtype is None:
        raise DataError(
            "the start of this state cannot be made up: the model does not say its shape or type",
            where=spec.name,
            hint="put its first value into the data under the input's name",
        )
    return np.zeros([size if isinstance(size, int) else 1 for size in spec.shape], dtype=dtype)


def mode_of(shape: tuple[int, ...], spec: TensorSpec, count: int) -> Mode | None:
    """How an array serves an input for that many samples; None where it does not.

    An array of the input's rank whose first axis counts samples holds rows: that axis is the
    model's batch axis. One more axis in front: each entry is a whole feed. What has the input's
    own shape (a free first size being 1) is a constant.
    """
    if shape and shape[0] == count:
        if fits((1, *shape[1:]), spec.shape):
            return "rows"
        if fits(shape[1:], spec.shape):
            return "whole"
    single = spec.shape is None or not spec.shape or isinstance(spec.shape[0], int)
    if fits(shape, spec.shape) and (single or shape[0] == 1):
        return "constant"
    return None


def count_samples(arrays: Mapping[str, Array], model: Model, where: str) -> int:
    """How many samples there are: as many as labels or groups, else as most arrays are long.

    Raises:
        DataError: There are none.
    """
    for name in ("label", "group"):
        if name in arrays and arrays[name].ndim:
            return _some(len(arrays[name]), where)
    specs = {spec.name: spec for spec in model.inputs}
    lengths = [
        len(array)
        for name, array in arrays.items()
        if name in specs
        and array.ndim
        and (
            specs[name].rank is None
            or array.ndim in (specs[name].rank, (specs[name].rank or 0) + 1)
        )
    ]
    varied = [length for length in lengths if length > 1] or lengths or [0]
    return _some(Counter(varied).most_common(1)[0][0], where)


def _some(count: int, where: str) -> int:
    if count < 1:
        raise DataError("there are no samples", where=where, hint="the first axis counts samples")
    return count


def misfit(array: Array, spec: TensorSpec, count: int, counted: str, where: str) -> DataError:
    """Why an array cannot serve an input: another length, another rank, another size."""
    wanted = describe(spec.dtype, spec.shape)
    rank = spec.rank or 0
    if array.ndim in (rank, rank + 1) and array.ndim and len(array) != count:
        return DataError(
            f"there are {len(array)} entries, but {counted} has {count}",
            where=where,
            hint=f"the first axis counts samples; the model takes {wanted} for one of them",
        )
    if array.ndim not in (rank, rank + 1):
        return DataError(
            f"the array has {array.ndim} axes ({list(array.shape)}), the model takes {wanted}",
            where=where,
            hint=f"give [samples, ...] with {rank} axes, or {rank + 1} where each entry is a "
            "whole feed with its batch axis",
        )
    shown = (1, *array.shape[1:]) if array.ndim == rank else array.shape[1:]
    return DataError(
        f"one sample has the shape {list(shown)}, the model takes {wanted}",
        where=where,
        hint=_turned(shown, spec) or "check the size of the data",
    )


def _turned(shape: tuple[int, ...], spec: TensorSpec) -> str:
    if len(shape) != 4:
        return ""
    if fits((shape[0], shape[3], shape[1], shape[2]), spec.shape):
        return "channels are last in the data and first in the model: transpose the data"
    if fits((shape[0], shape[2], shape[3], shape[1]), spec.shape):
        return "channels are first in the data and last in the model: transpose the data"
    return ""
