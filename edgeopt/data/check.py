"""Whether arrays meet a model's inputs. Every mistake is refused with its place."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from edgeopt.core.data import Array
from edgeopt.core.model import Dimension, Model, TensorSpec
from edgeopt.data.options import nearest
from edgeopt.errors import DataError

_PIECE = 1 << 22


def numpy_dtype(spec: TensorSpec) -> np.dtype[Any] | None:
    """The input's dtype; None where numpy has no such type and it cannot be checked."""
    try:
        return np.dtype(spec.dtype)
    except TypeError:
        return None


def describe(dtype: object, shape: Sequence[Dimension] | None) -> str:
    """`float32[?,3,height,224]`, as messages show it."""
    if shape is None:
        return f"{dtype}[any shape]"
    return f"{dtype}[{','.join('?' if d is None else str(d) for d in shape)}]"


def fits(shape: Sequence[int], wanted: Sequence[Dimension] | None) -> bool:
    """Whether a feed's shape meets an input's: same rank, same static sizes."""
    if wanted is None:
        return True
    return len(shape) == len(wanted) and all(
        not isinstance(size, int) or size == found
        for found, size in zip(shape, wanted, strict=True)
    )


def require_names(
    given: Iterable[str], model: Model, *, optional: Iterable[str], where: str
) -> None:
    """Refuse names that are no inputs of the model, and inputs that were not given.

    Raises:
        DataError: With the nearest name.
    """
    found, wanted = list(given), [spec.name for spec in model.inputs]
    missing = [name for name in wanted if name not in found and name not in set(optional)]
    for name in found:
        if name not in wanted:
            raise DataError(
                f"the model has no input {name!r}",
                where=where,
                hint=f"keys are the model's inputs, 'label', 'group'. {nearest(name, wanted)}",
            )
    if missing:
        raise DataError(
            f"the input {missing[0]!r} of the model is not in the data",
            where=where,
            hint=f"found: {', '.join(map(repr, found)) or 'nothing'}; "
            f"the model takes: {', '.join(map(repr, wanted))}",
        )


def cast(array: Array, spec: TensorSpec, *, where: str) -> tuple[Array, str]:
    """The array in the input's dtype where that loses nothing, and a note on what was done.

    Integers are cast where every value fits; float64 to a narrower float where no value
    overflows, since data in double precision is an accident of numpy, not a wish; nothing else.

    Raises:
        DataError: The array holds objects, or another kind of values.
    """
    wanted = numpy_dtype(spec)
    if array.dtype.hasobject:
        raise _objects(where)
    if wanted is None or array.dtype == wanted:
        return array, ""
    if wanted.kind in "OUST" or array.dtype.kind in "US":
        if array.dtype.kind in "US" and wanted.kind in "OUST":
            return array.astype(object), ""
        raise _wrong_type(array, spec, where)
    if array.dtype.kind in "iub" and wanted.kind in "iu":
        return _narrowed(array, wanted, spec, where)
    if array.dtype.kind == "f" and wanted.kind in "fV":
        with np.errstate(over="ignore"):
            found = array.astype(wanted)
        if bool(np.isfinite(found.astype(np.float64)).all() or not np.isfinite(array).all()):
            return found, f"{spec.name}: cast from {array.dtype} to {wanted}"
    raise _wrong_type(array, spec, where)


def _narrowed(
    array: Array, wanted: np.dtype[Any], spec: TensorSpec, where: str
) -> tuple[Array, str]:
    found = array.astype(wanted)
    if not np.array_equal(found, array):
        worst = array[found != array].ravel()[0]
        raise DataError(
            f"the value {worst} does not fit {wanted}", where=where, hint="check the data's type"
        )
    return found, f"{spec.name}: cast from {array.dtype} to {wanted}"


def _wrong_type(array: Array, spec: TensorSpec, where: str) -> DataError:
    hint = "convert the values in the data yourself, so that nothing is guessed"
    if array.dtype == np.uint8 and spec.dtype.startswith("float"):
        hint = (
            "images stored as uint8 need a preprocess, for example "
            '{"scale": 0.00392156862745098, "mean": [0.485, 0.456, 0.406], '
            '"std": [0.229, 0.224, 0.225]}'
        )
    return DataError(
        f"the data is {array.dtype}, the model takes {describe(spec.dtype, spec.shape)}",
        where=where,
        hint=hint,
    )


def _objects(where: str) -> DataError:
    return DataError(
        "the array holds Python objects, which are not read since unpickling runs code",
        where=where,
        hint="store plain arrays (numbers, texts with dtype=str); rows of different lengths "
        "go through python:package.function",
    )


def require_finite(array: Array, *, where: str, rows: bool = True) -> None:
    """Refuse NaN and infinity, in pieces of bounded memory.

    Args:
        array: Anything; only floats can be at fault.
        where: The key.
        rows: Whether the first axis counts samples.

    Raises:
        DataError: With the first sample and position at fault.
    """
    if array.dtype.kind not in "fc" or not array.size:
        return
    pieces = array[None] if not rows or not array.ndim else array
    step = max(1, _PIECE // max(1, pieces[0].size))
    for start in range(0, len(pieces), step):
        good = np.isfinite(pieces[start : start + step])
        if good.all():
            continue
        first = tuple(int(i) for i in np.argwhere(~good)[0])
        value = pieces[start : start + step][first]
        place = f", sample {start + first[0]}" if rows else ""
        place += f", position {list(first[1:])}" if first[1:] else ""
        raise DataError(
            f"the value {value} is not finite",
            where=where + place,
            hint="remove the sample, or repair what produced it",
        )


def check_feed(
    feed: Mapping[str, Any], model: Model, *, optional: Iterable[str], where: str
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """A feed that a user's code made, as arrays in the model's dtypes, and notes on casts.

    Raises:
        DataError: Names, dtypes, shapes or values do not meet the model.
    """
    require_names(feed, model, optional=optional, where=where)
    found: dict[str, Array] = {}
    notes: list[str] = []
    for spec in model.inputs:
        if spec.name not in feed:
            continue
        place = f"{where}, {spec.name}"
        array, note = cast(np.asarray(feed[spec.name]), spec, where=place)
        if not fits(array.shape, spec.shape):
            raise DataError(
                f"the shape is {list(array.shape)}, the model takes "
                f"{describe(spec.dtype, spec.shape)}",
                where=place,
                hint="a feed holds one inference, with the batch axis",
            )
        require_finite(array, where=place, rows=False)
        found[spec.name] = array
        notes += [note] if note else []
    return found, tuple(notes)


def check_labels(target: Array, count: int, *, where: str) -> Array:
    """Labels, one row a sample.

    Raises:
        DataError: Another number than samples, objects, or values that are not finite.
    """
    if not target.ndim or len(target) != count:
        length = len(target) if target.ndim else "no"
        raise DataError(
            f"there are {length} labels for {count} samples",
            where=where,
            hint="one label a sample, in the same order",
        )
    if target.dtype.hasobject:
        raise _objects(where)
    require_finite(target, where=where)
    return target


def check_groups(group: Array, count: int, *, where: str) -> Array:
    """Group numbers, one a sample.

    Raises:
        DataError: Another number than samples, or not integers.
    """
    if group.shape != (count,) or group.dtype.kind not in "iu":
        raise DataError(
            f"groups are {describe(group.dtype, group.shape)}, expected int64[{count}]",
            where=where,
            hint="one integer a sample: equal numbers belong together",
        )
    return group.astype(np.int64)


def check_state(state: Mapping[str, str], model: Model, group: Array | None, *, where: str) -> None:
    """Refuse state that the model does not have, or that has nothing to run along.

    Raises:
        DataError: An output or input that does not exist, or no groups.
    """
    outputs, inputs = [spec.name for spec in model.outputs], [spec.name for spec in model.inputs]
    for output, name in state.items():
        for kind, found, names in (("output", output, outputs), ("input", name, inputs)):
            if found not in names:
                raise DataError(
                    f"state names an {kind} {found!r} that the model does not have",
                    where=where,
                    hint=f"state maps outputs to inputs. {nearest(found, names)}",
                )
    if state and group is None:
        raise DataError(
            "state is fed on within a group, and the data has no groups",
            where=where,
            hint="add the key 'group': one integer a sample, equal for samples of one recording",
        )
