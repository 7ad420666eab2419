"""Channels at the end of an axis that nobody needs: what `pad_channels` has added."""

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.channels.groups import Dependencies, Group


def padded(found: Dependencies, value: ir.Value, width: int) -> Group | None:
    """The group of a value whose channels from `width` on can go without a trace.

    That is so where every layer that reads them has weights of 0 for them.

    Args:
        found: Of the graph.
        value: With its channels on axis 1.
        width: Channels that are meant; fewer than it has.

    Returns:
        None where its channels are not those of one group in their order, or are read.
    """
    axes = found.axes.get(value, ())
    axis = axes[1] if len(axes) > 1 else ()
    for group in found.groups if axis else ():
        units = group.units_at(axis)
        if np.array_equal(units, np.arange(group.width)):
            return group if _unread(group, width) else None
    return None


def _unread(group: Group, width: int) -> bool:
    for cut in group.readers:
        array = array_of(cut.node.inputs[cut.index])
        beyond = np.flatnonzero(group.units_at(cut.labels) >= width)
        if array is None or array.take(beyond, cut.axis).any():
            return False
    return True
