"""Which outputs of a layer are left, told from its weights before and after something was removed.

Removal keeps numbers and their order, so every kept row is found again by what stands in it: by
its bias, or by where its first weights stood. No word of whoever removed them is needed.
"""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.transforms.repair._weighted import Weighted

Array = npt.NDArray[Any]
_LOOKED_AT = 8
"""Weights of a row whose places are looked up: numbers of trained layers hardly repeat."""


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
    wanted = left.reshape(-1, left.shape[-1])
    owners: dict[float, list[int]] = {}
    for index, row in enumerate(rows):
        for number in set(row.tolist()):
            owners.setdefault(number, []).append(index)
    found: list[int] = []
    for row in wanted:
        votes = Counter(o for number in row[:_LOOKED_AT].tolist() for o in owners.get(number, ()))
        (best, most), second = next(iter(votes.most_common(1)), (-1, 0)), votes.most_common(2)[1:]
        unclear = second and second[0][1] == most
        found.append(-1 if unclear else best)
    return _ascending(found)


def _ascending(found: list[int]) -> npt.NDArray[np.int64] | None:
    rows = np.array(found, np.int64)
    return rows if rows.size and rows[0] >= 0 and (np.diff(rows) > 0).all() else None
