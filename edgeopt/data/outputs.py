"""What metrics share in looking at outputs: which output, which axis holds the classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.core.protocols import Arrays
from edgeopt.data.options import nearest
from edgeopt.errors import DataError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def pick(outputs: Arrays, name: str) -> Array:
    """The output of that name; the first where the name is empty.

    Raises:
        DataError: No such output.
    """
    if not outputs:
        raise DataError("the model gave no outputs")
    if not name:
        return next(iter(outputs.values()))
    if name not in outputs:
        raise DataError(f"there is no output {name!r}", hint=nearest(name, outputs))
    return outputs[name]


def picked(outputs: Arrays, name: str) -> str:
    """The name of the output that `pick` takes."""
    return name or next(iter(outputs), "")


def decision(output: Array, *, axis: int | None, threshold: float | None) -> str:
    """What must be known of an output to tell its decisions: see `reduction`.

    Args:
        output: Of one sample.
        axis: Where a float output has its classes; None where that is not known.
        threshold: For one value a position; it goes before the axis.
    """
    if output.dtype.kind != "f":
        return "full"
    if threshold is not None:
        return f"above:{float(threshold)!r}"
    if axis is None or not -output.ndim <= axis < output.ndim or output.shape[axis] < 2:
        return "full"
    return f"argmax:{axis}"


def class_axis(shape: tuple[int, ...], target: tuple[int, ...]) -> int | None:
    """The axis without which an output's shape is the target's; None where there is none.

    Axes of size 1 do not count, since outputs carry a batch axis and targets do not. Axis 1 is
    preferred to the last one, and that to others.
    """
    if len(shape) < 2:
        return 0 if len(shape) == 1 and _tight(target) == () else None
    order = [1, len(shape) - 1, *range(2, len(shape) - 1)]
    fitting = [axis for axis in order if _tight(shape[:axis] + shape[axis + 1 :]) == _tight(target)]
    wide = [axis for axis in fitting if shape[axis] > 1]
    return (wide or fitting or [None])[0]


def _tight(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def argmax(output: Array, axis: int) -> Integers:
    """The largest along an axis; -1 where something there is not a number."""
    found = np.argmax(output, axis=axis)
    if output.dtype.kind == "f":
        found = np.where(np.isnan(output).any(axis=axis), -1, found)
    return found.astype(np.int64)


def predicted_classes(
    output: Array, target: Array, *, axis: int | None, threshold: float | None
) -> tuple[Integers, int]:
    """Class by position, in the target's shape, and the number of classes (0 is unknown).

    Integer outputs are classes already. Float outputs are compared along the class axis, or with
    the threshold where there is one value a position.

    Raises:
        DataError: Output and target do not fit each other.
    """
    if output.dtype.kind in "iub":
        return _same_positions(output.astype(np.int64), target, output), 0
    if threshold is not None:
        over = np.where(np.isnan(output), -1, (output > threshold).astype(np.int64))
        return _same_positions(over, target, output), 2
    found = axis if axis is not None else class_axis(output.shape, target.shape)
    if found is None or not -output.ndim <= found < output.ndim:
        raise _misfit(output, target)
    if output.shape[found] == 1:
        raise DataError(
            f"the output {list(output.shape)} has one value where classes were expected",
            hint="give the metric option threshold (0.5 for a probability, 0 for a logit)",
        )
    return _same_positions(argmax(output, found), target, output), output.shape[found]


def class_reduction(
    outputs: Arrays, target: Array | None, *, name: str, axis: int | None, threshold: float | None
) -> dict[str, str]:
    """What `predicted_classes` needs of an output, by its name; see `reduction`."""
    output = pick(outputs, name)
    if axis is None and target is not None:
        axis = class_axis(output.shape, target.shape)
    return {picked(outputs, name): decision(output, axis=axis, threshold=threshold)}


def _same_positions(found: Integers, target: Array, output: Array) -> Integers:
    if _tight(found.shape) != _tight(target.shape):
        raise _misfit(output, target)
    return found.reshape(target.shape)


def _misfit(output: Array, target: Array) -> DataError:
    return DataError(
        f"a label of shape {list(target.shape)} does not fit an output of shape "
        f"{list(output.shape)} ({output.dtype})",
        hint="labels are class numbers, one a position of the output; the metric options "
        "output and axis say where the classes are",
    )


def class_labels(target: Array | None, classes: Sequence[str]) -> Integers:
    """Labels as class numbers; texts are looked up among the class names.

    Raises:
        DataError: No label, a text without class names, or a number that is not whole.
    """
    if target is None:
        raise DataError("this sample has no label")
    if target.dtype.kind in "US":
        return _by_name(target, list(classes))
    if target.dtype.kind in "iub":
        return target.astype(np.int64)
    if target.dtype.kind == "f" and bool(np.all(target == np.round(target))):
        return target.astype(np.int64)
    raise DataError(f"labels of type {target.dtype} are not class numbers")


def _by_name(target: Array, classes: list[str]) -> Integers:
    names: list[Any] = target.astype(str).ravel().tolist()
    for name in names:
        if name not in classes:
            raise DataError(
                f"the label {name!r} is not among the class names",
                hint="give the metric option classes: the names in the order of the outputs. "
                + nearest(str(name), classes),
            )
    return np.array([classes.index(name) for name in names], dtype=np.int64).reshape(target.shape)


def require_range(labels: Integers, classes: int, ignore: int | None) -> None:
    """Refuse labels that the output has no class for.

    Raises:
        DataError: Says the label and what the output has.
    """
    seen = labels if ignore is None else labels[labels != ignore]
    if not seen.size or (seen.min() >= 0 and (not classes or seen.max() < classes)):
        return
    worst = int(seen.min()) if seen.min() < 0 else int(seen.max())
    limit = f"classes 0 to {classes - 1}" if classes else "classes from 0 on"
    raise DataError(
        f"the label {worst} is out of range: the output has {limit}",
        hint="are the labels counted from 1? the metric option ignore leaves one label out",
    )
