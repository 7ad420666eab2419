"""Texts out of recognition models: greedy CTC decoding and the edit distance."""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array
from edgeopt.data.outputs import argmax
from edgeopt.errors import DataError


def decode(
    output: Array, charset: Sequence[str], *, blank: int, axis: int = -1, collapse: bool = True
) -> str:
    """The text that one sample's output says.

    Args:
        output: Strings; or classes by step (integers); or values of steps and classes (floats),
            with axes of size 1 anywhere.
        charset: A text a class, with or without an entry for the blank.
        blank: The class that says nothing.
        axis: Where a float output has its classes.
        collapse: Whether repeated classes count once (CTC).

    Raises:
        DataError: The charset does not fit the classes, or there is more than one sample.
    """
    if output.dtype.kind in "USO":
        return "".join(str(item) for item in output.ravel().tolist())
    if output.dtype.kind == "f":
        full = with_blank(charset, output.shape[axis], blank)
        steps = np.squeeze(argmax(output, axis))
    else:
        full, steps = list(charset), np.squeeze(output.astype(np.int64))
    if steps.ndim > 1:
        raise DataError(
            f"an output of shape {list(output.shape)} is not one line of text",
            hint="a feed holds one sample; the metric option axis says where the classes are",
        )
    return "".join(_text(full, step) for step in _emitted(np.atleast_1d(steps), blank, collapse))


def with_blank(charset: Sequence[str], classes: int, blank: int) -> list[str]:
    """The charset with an entry for every class.

    Raises:
        DataError: It has neither as many entries as the output has classes nor one less.
    """
    position = blank % classes
    if len(charset) == classes:
        return [*charset[:position], "", *charset[position + 1 :]]
    if len(charset) == classes - 1:
        return [*charset[:position], "", *charset[position:]]
    raise DataError(
        f"the charset has {len(charset)} entries and the output {classes} classes",
        hint="the metric option charset has one entry a class, with or without the blank",
    )


def _emitted(steps: npt.NDArray[np.int64], blank: int, collapse: bool) -> Sequence[int]:
    keep = steps != blank
    if collapse:
        keep[1:] &= steps[1:] != steps[:-1]
    found: list[int] = steps[keep].tolist()
    return found


def _text(charset: Sequence[str], step: int) -> str:
    if step < 0:
        return "\N{REPLACEMENT CHARACTER}"
    if step >= len(charset):
        raise DataError(
            f"class {step} is beyond the charset of {len(charset)} entries",
            hint="the metric option charset has one entry a class",
        )
    return charset[step]


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and substitutions (Levenshtein 1966)."""
    row = list(range(len(right) + 1))
    for i, mine in enumerate(left, start=1):
        diagonal, row[0] = row[0], i
        for j, theirs in enumerate(right, start=1):
            best = min(row[j] + 1, row[j - 1] + 1, diagonal + (mine != theirs))
            diagonal, row[j] = row[j], best
    return row[-1]
