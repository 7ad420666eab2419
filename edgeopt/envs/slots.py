"""Action slots: a fixed number of numbered places for a varying number of legal actions."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edgeopt.core.action import Action, Choice

Ints = npt.NDArray[np.int64]
_KEPT = 1 << 16


class Groups:
    """Numbers of the groups that actions belong to: the family of the choice that offers one,
    else its transform.

    Looked up once for each object, since hashing every legal action takes longer than a step.

    Args:
        choices: Of the space.
    """

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._families: Mapping[Action, str] = {
            action.bare(): choice.family
            for choice in choices
            for alternative in choice.alternatives
            for action in alternative
        }
        self._names: dict[str, int] = {}
        self._known: dict[int, int] = {}
        self._held: list[Action] = []
        """Of these objects: kept, so that no other one takes the place of one in memory."""

    def of(self, actions: Sequence[Action]) -> Ints:
        """[actions]: equal numbers for actions of one group."""
        try:
            return self._looked_up(actions)
        except KeyError:
            self._learn(actions)
        return self._looked_up(actions)

    def _looked_up(self, actions: Sequence[Action]) -> Ints:
        return np.fromiter(map(self._known.__getitem__, map(id, actions)), np.int64, len(actions))

    def _learn(self, actions: Sequence[Action]) -> None:
        if len(self._held) > _KEPT:
            self._held.clear()
            self._known.clear()
        for action in actions:
            if id(action) not in self._known:
                bare = action.bare() if action.artifacts else action
                name = self._families.get(bare, action.transform)
                self._known[id(action)] = self._names.setdefault(name, len(self._names))
                self._held.append(action)


def subset(groups: Ints, size: int) -> Ints:
    """Indices of at most `size` entries, ascending: a fair share of every group [entries].

    Slots are dealt to the groups in turn until they or the entries run out; within its share a
    group keeps entries at even distances, so that all depths of the network stay reachable. The
    same entries give the same subset.
    """
    if len(groups) <= size:
        return np.arange(len(groups))
    places = [np.flatnonzero(groups == group) for group in np.flatnonzero(np.bincount(groups))]
    places.sort(key=lambda found: int(found[0]))  # a slot that is left goes to the first group
    share = _shares([len(found) for found in places], size)
    kept = [found[_spread(len(found), n)] for found, n in zip(places, share, strict=True)]
    return np.sort(np.concatenate(kept))


@lru_cache(maxsize=1024)
def _spread(count: int, share: int) -> Ints:
    """So many of `count` places, at even distances."""
    return np.linspace(0, count - 1, share).round().astype(np.int64)


def _shares(counts: Sequence[int], size: int) -> list[int]:
    share = [0] * len(counts)
    while size:
        left = [n for n, count in enumerate(counts) if share[n] < count]
        rounds = min(size // len(left), min(counts[n] - share[n] for n in left))
        for n in left if rounds else left[:size]:
            share[n] += rounds or 1
        size -= len(left) * rounds if rounds else size
    return share
