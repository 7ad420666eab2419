"""Which outputs of a layer are left, told from its weights before and after something was removed.

Removal keeps numbers and their order, so every kept row is found again by what stands in it: by
its bias, or by where its first weights stood. No word of whoever removed them is needed.
"""

from collections import Counter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.repair._weighted import Weighted

Array = npt.NDArray[Any]
_LOOKED_AT = 8
"""Weights of a row whose places are looked up: numbers of trained layers hardly repeat."""
_COMMON = 64
"""Rows that a number may stand in and still tell one from others: zeros stand in all."""
_AT_ONCE = 1 << 22
"""Weights that are looked through at a time."""


def kept_rows(before: Weighted, after: Weighted) -> npt.NDArray[np.int64] | None:
    """Indices into the outputs of `before`, ascending; None where they cannot be told."""
    whole, left = before.matrix(), after.matrix()
    outs = whole.shape[0] * whole.shape[1], left.shape[0] * left.shape[1]
    if outs[0] == outs[1]:
        return np.arange(int(outs[0]))
    by_bias = _by_bias(before.bias(), after.bias())
    return by_bias if by_bias is not None else _by_weights(whole, left)


def _by_bias(whole: Array, left: Array) -> npt.NDArray[np.int64] | None:
    place = {float(number): index for index, number in enumerate(whole)}
    if len(place) < len(whole):
        return None
    return _ascending([place.get(float(number), -1) for number in left])


def _by_weights(whole: Array, left: Array) -> npt.NDArray[np.int64] | None:
    rows = whole.reshape(-1, whole.shape[-1])
    looked_at = left.reshape(-1, left.shape[-1])[:, :_LOOKED_AT]
    sought, place = np.unique(looked_at, return_inverse=True)
    owners = _owners(rows, sought)
    found: list[int] = []
    for numbers in cast("list[list[int]]", place.reshape(looked_at.shape).tolist()):
        votes = Counter(owner for number in numbers for owner in owners.get(number, ()))
        (best, most), second = next(iter(votes.most_common(1)), (-1, 0)), votes.most_common(2)[1:]
        unclear = second and second[0][1] == most
        found.append(-1 if unclear else best)
    return _ascending(found)


def _owners(rows: Array, sought: Array) -> dict[int, list[int]]:
    """Index of each sought number to the rows that it stands in; what stands in many tells none.

    Some rows at a time, by bisection: a table of all weights of a wide layer takes minutes.
    """
    found: set[tuple[int, int]] = set()
    step = max(_AT_ONCE // max(rows.shape[1], 1), 1)
    for start in range(0, len(rows) if len(sought) else 0, step):
        some = rows[start : start + step]
        near = np.minimum(np.searchsorted(sought, some), len(sought) - 1)
        held, column = np.nonzero(sought[near] == some)
        numbers = near[held, column].tolist()
        found.update(zip(numbers, (held + start).tolist(), strict=True))
    owners: dict[int, list[int]] = {}
    for number, row in sorted(found):
        owners.setdefault(number, []).append(row)
    return {number: rows for number, rows in owners.items() if len(rows) <= _COMMON}


def _ascending(found: list[int]) -> npt.NDArray[np.int64] | None:
    rows = np.array(found, np.int64)
    return rows if rows.size and rows[0] >= 0 and (np.diff(rows) > 0).all() else None
