"""Which layer of one model is which of another: by the value it makes, then by structure."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.core.layers import family, weighted

Row = Mapping[str, Any]
_STEPS = 4
"""A rewrite keeps the name of the last value of what it replaced: so far back is looked."""


def aligned(a: Sequence[Row], b: Sequence[Row]) -> list[tuple[int | None, int | None]]:
    """Pairs of positions in the order of both models; None where a layer has no partner.

    A value keeps its name when the node behind it is rewritten, so a folded normalisation leaves
    its name to the convolution before it. Where the kinds differ and one is a convolution, matrix
    product or recurrence, its partner is looked for behind the other.
    """
    pairs: dict[int, int] = {}
    places = {row["value"]: index for index, row in enumerate(a) if row["value"]}
    named = [(places[row["value"]], at) for at, row in enumerate(b) if row["value"] in places]
    same = [(i, j) for i, j in named if _kind(a[i]) == _kind(b[j])]
    for i, j in same:
        if i not in pairs.values():  # bodies of one model may hold the same name twice
            pairs[j] = i
    for i, j in named:
        if (i, j) not in same:
            _pair_others(a, b, i, j, pairs)
    _by_structure(a, b, pairs)
    return _ordered(len(a), len(b), pairs)


def _kind(row: Row) -> str:
    return family(str(row["operator"]))


def _pair_others(a: Sequence[Row], b: Sequence[Row], i: int, j: int, pairs: dict[int, int]) -> None:
    """Two layers of another kind that make a value of the same name."""
    taken = set(pairs.values())
    found: tuple[int | None, int | None] = (i, j)
    if weighted(str(b[j]["operator"])):
        found = _back(a, i, _kind(b[j]), taken), j
    elif weighted(str(a[i]["operator"])):
        found = i, _back(b, j, _kind(a[i]), set(pairs))
    left, right = found
    if left is not None and right is not None and left not in taken and right not in pairs:
        pairs[right] = left


def _back(rows: Sequence[Row], start: int, kind: str, taken: set[int]) -> int | None:
    at: int | None = start
    for _ in range(_STEPS):
        if at is None:
            return None
        if _kind(rows[at]) == kind and at not in taken:
            return at
        at = rows[at]["source"]
    return None


def _by_structure(a: Sequence[Row], b: Sequence[Row], pairs: dict[int, int]) -> None:
    """What has no partner by name: weighted layers of equal kind and shape, in order."""
    taken = set(pairs.values())
    left = [i for i, row in enumerate(a) if i not in taken and weighted(str(row["operator"]))]
    right = [j for j, row in enumerate(b) if j not in pairs and weighted(str(row["operator"]))]
    keys = (
        [(_kind(a[i]), a[i]["shape"]) for i in left],
        [(_kind(b[j]), b[j]["shape"]) for j in right],
    )
    for block in difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            pairs[right[block.b + step]] = left[block.a + step]


def _ordered(
    count_a: int, count_b: int, pairs: Mapping[int, int]
) -> list[tuple[int | None, int | None]]:
    """The second model's order; what only the first has stands before what followed it there."""
    paired = set(pairs.values())
    found: list[tuple[int | None, int | None]] = []
    done = 0
    for j in range(count_b):
        i = pairs.get(j)
        if i is not None:
            found += [(other, None) for other in range(done, i) if other not in paired]
            done = max(done, i + 1)
        found.append((i, j))
    return found + [(other, None) for other in range(done, count_a) if other not in paired]
