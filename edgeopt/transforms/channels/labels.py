"""`Labels`: which atom stands at each place of an axis, and how ties make units of atoms.

An atom is the least thing that a layer makes: one channel of one convolution, one hidden unit.
Along an axis stand the atoms of its places, -1 where nothing can be removed. An axis may have
several such layers (a matrix of heads times dimensions, flattened: a place belongs to a head and
to a dimension); a place goes when any of its atoms does.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Axis = tuple[Labels, ...]
Axes = tuple[Axis, ...]
NONE = -1


def atoms_of(axes: Iterable[Axis]) -> Labels:
    """All atoms that stand anywhere on some axes, each once."""
    found = [labels for axis in axes for labels in axis]
    if not found:
        return np.zeros(0, np.int64)
    every = np.unique(np.concatenate([labels.reshape(-1) for labels in found]))
    return every[every >= 0]


def places(axis: Axis, gone: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Places of an axis that hold an atom which goes.

    Args:
        axis: With a layer at least.
        gone: By atom.
    """
    hit = np.zeros(len(axis[0]), np.bool_)
    for labels in axis:
        hit |= (labels >= 0) & gone[labels]
    return np.flatnonzero(hit)


def repeated(axis: Axis, times: int) -> Axis:
    """Every place as often as said, side by side."""
    return tuple(np.repeat(labels, times) for labels in axis)


def picked(axis: Axis, where: npt.NDArray[np.int64] | slice) -> Axis:
    """Some places of an axis; layers that end up without any atom are left out."""
    found = (labels[where] for labels in axis)
    return tuple(labels for labels in found if (labels >= 0).any())


def joined(parts: Iterable[tuple[Axis, int]]) -> Axis:
    """Axes side by side, each with its size."""
    listed = list(parts)
    depth = max((len(axis) for axis, _ in listed), default=0)
    return tuple(
        np.concatenate(
            [
                axis[level] if level < len(axis) else np.full(size, NONE, np.int64)
                for axis, size in listed
            ]
        )
        for level in range(depth)
    )


def same(one: Axis, other: Axis) -> bool:
    """Whether the same atoms stand at the same places."""
    return len(one) == len(other) and all(
        np.array_equal(a, b) for a, b in zip(one, other, strict=True)
    )


def components(count: int, ties: Iterable[tuple[Labels, Labels]]) -> Labels:
    """The least atom that each of `count` atoms is tied to, over any number of ties."""
    parent = np.arange(count)
    listed = list(ties)
    if not listed:
        return parent
    first = np.concatenate([one.reshape(-1) for one, _ in listed])
    second = np.concatenate([other.reshape(-1) for _, other in listed])
    while True:
        low = np.minimum(parent[first], parent[second])
        high = np.maximum(parent[first], parent[second])
        if np.array_equal(low, high):
            return parent
        np.minimum.at(parent, high, low)
        while not np.array_equal(parent, parent[parent]):
            parent = parent[parent]
