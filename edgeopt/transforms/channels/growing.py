"""Groups whose channels can be added at the end, all over the model: what `pad_channels` lengthens.

Removal takes any place out of any axis. At the end of an axis more can stand only where the axis
holds the channels of one group in their order, each once, and nothing else: behind a Concat or a
flattened map the end is not where the channels end. Values must have them on axis 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.channels.edits import Count, Cut, Size
from edgeopt.transforms.channels.groups import Dependencies, Group
from edgeopt.transforms.channels.labels import Axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing:
    """Channels that are added together.

    Args:
        width: Number of channels.
        makers: Layers that compute them, in graph order.
        cuts: Constants that have them along an axis: weights that make them, biases, statistics,
            then weights that read them.
        counts: Attributes and elements of constants that say how many there are.
        values: All values with these channels, on axis 1.
    """

    width: int
    makers: tuple[ir.Node, ...]
    cuts: tuple[Cut, ...]
    counts: tuple[Count | Size, ...]
    values: tuple[ir.Value, ...]


def growing(model: ir.Model) -> tuple[Growing, ...]:
    """Every group that may grow, in graph order.

    Args:
        model: Sorted, with shapes.
    """
    found = Dependencies(model)
    made = (_grown(found, group) for group in found.groups)
    return tuple(one for one in made if one is not None)


def _grown(found: Dependencies, group: Group) -> Growing | None:
    makers = [source.value.producer() for source in group.sources]
    if len(group.strata) != 1 or group.channels != (1,) or None in makers:
        return None
    cuts = [cut for cut in found.cuts if _meets(group, cut.labels)]
    edits = [edit for edit in found.edits if any(_meets(group, axis) for axis in edit.axes)]
    places = list(_places(found, group))
    counts = [edit for edit in edits if isinstance(edit, Count | Size)]
    axes = [
        *(cut.labels for cut in cuts),
        *(edit.axis for edit in counts),
        *(axis for _, _, axis in places),
    ]
    if len(counts) != len(edits) or any(at != 1 for _, at, _ in places):
        return None
    if not all(_is_whole(group, axis) for axis in axes) or not all(map(_is_plain, counts)):
        return None
    return Growing(
        width=group.width,
        makers=tuple(node for node in makers if node is not None),
        cuts=tuple(sorted(cuts, key=lambda cut: cut.reads)),
        counts=tuple(counts),
        values=tuple(value for value, _, _ in places),
    )


def _places(found: Dependencies, group: Group) -> Iterator[tuple[ir.Value, int, Axis]]:
    for value, axes in found.axes.items():
        for at, axis in enumerate(axes):
            if _meets(group, axis):
                yield value, at, axis


def _meets(group: Group, axis: Axis) -> bool:
    return bool(axis) and bool((group.units_at(axis) >= 0).any())


def _is_whole(group: Group, axis: Axis) -> bool:
    """Whether the channels stand there in their order, and nothing else."""
    return len(axis) == 1 and np.array_equal(group.units_at(axis), np.arange(group.width))


def _is_plain(count: Count | Size) -> bool:
    return count.divisor == 1 if isinstance(count, Count) else count.user is None
