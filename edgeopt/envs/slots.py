"""Action slots: a fixed number of numbered places for a varying number of legal actions."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.core.action import Action, Choice


def families(choices: Sequence[Choice]) -> Mapping[Action, str]:
    """The family of every action that some choice offers."""
    return {
        action.bare(): choice.family
        for choice in choices
        for alternative in choice.alternatives
        for action in alternative
    }


def subset(groups: Sequence[str], size: int) -> tuple[int, ...]:
    """Indices of at most `size` entries, ascending: a fair share of every group.

    Slots are dealt to the groups in turn until they or the entries run out; within its share a
    group keeps entries at even distances, so that all depths of the network stay reachable. The
    same entries give the same subset.
    """
    if len(groups) <= size:
        return tuple(range(len(groups)))
    places: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        places.setdefault(group, []).append(index)
    share = _shares({group: len(found) for group, found in places.items()}, size)
    kept: list[int] = []
    for group, found in places.items():
        picks = np.linspace(0, len(found) - 1, share[group]).round().astype(int)
        kept += [found[i] for i in picks]
    return tuple(sorted(kept))


def _shares(counts: Mapping[str, int], size: int) -> Mapping[str, int]:
    share = dict.fromkeys(counts, 0)
    while size:
        left = [group for group in counts if share[group] < counts[group]]
        rounds = min(size // len(left), min(counts[group] - share[group] for group in left))
        for group in left if rounds else left[:size]:
            share[group] += rounds or 1
        size -= len(left) * rounds if rounds else size
    return share
