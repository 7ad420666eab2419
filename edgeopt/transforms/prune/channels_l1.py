"""Remove the channels of a group whose filters have the lowest L1 norm.

"Pruning Filters for Efficient ConvNets" (Li et al., ICLR 2017): a channel's criterion is the sum
of the absolute weights that compute it. The kept indices follow from the weights alone, so a
replay on retrained weights chooses again. Must not fire on channels whose removal
`dependencies` does not prove.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.dependencies import ChannelGroup, Cut, channel_groups, why_none

RATIOS = (0.25, 0.5)
"""Shares of the channels that are removed."""


class ChannelsL1:
    """Structured removal by weight magnitude."""

    version = 1
    needs_data = False
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """Two widths a group, multiples of the device's channel block.

        Groups that several layers write (residual streams) are not offered: removing them by
        magnitude ruined every net it was tried on.
        """
        found: list[Action] = []
        for group in channel_groups(model, joins=True):
            if len(group.producers) > 1:
                continue
            widths = {_rounded(group.width, ratio, offer.profile.channel_block) for ratio in RATIOS}
            found += [
                Action.of("channels_l1", group.name, keep=width)
                for width in sorted(widths, reverse=True)
                if 0 < width < group.width
            ]
        return tuple(found)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Keep the `keep` channels with the largest norms."""
        group = next(
            (g for g in channel_groups(editor.model, joins=True) if g.name == action.site), None
        )
        if group is None:
            return Rejection(reason=why_none(editor.model, action.site))
        count = int(action.get("keep"))
        if not 0 < count < group.width:
            return Rejection(reason=f"it has {group.width} channels, {count} cannot be kept")
        remove_channels(editor, group, kept_channels(group, count))
        return action


PLUGIN = ChannelsL1()


def kept_channels(group: ChannelGroup, count: int) -> npt.NDArray[np.int64]:
    """Indices of the channels with the largest L1 norm over all producers, ascending."""
    norms = np.zeros(group.width)
    for cut in group.others:
        weight = array_of(cut.node.inputs[cut.index])
        if cut.index == 1 and weight is not None and cut.node in group.producers:
            axes = tuple(axis for axis in range(weight.ndim) if axis != cut.axis)
            norms += np.abs(weight).sum(axis=axes, dtype=np.float64)
    order = np.argsort(-norms, kind="stable")
    return np.sort(order[:count]).astype(np.int64)


def remove_channels(editor: Editor, group: ChannelGroup, kept: npt.NDArray[np.int64]) -> None:
    """Cut everything that holds the group's channels down to the kept ones."""
    count = len(kept)
    gone = np.setdiff1d(np.arange(group.width), kept)
    for cut, offsets in _by_operand((*group.others, *group.consumers)):
        array = array_of(cut.node.inputs[cut.index])
        assert array is not None, "only constants are cut"
        places = np.concatenate([offset + gone for offset in offsets])
        smaller = np.delete(array, places, axis=cut.axis)
        _replace(editor, cut, smaller, smaller.shape[cut.axis])
    for cut in group.reshapes:
        target = np.array(array_of(cut.node.inputs[cut.index]))
        target[cut.axis] = count
        _replace(editor, cut, target, count)
    for node in group.depthwise:
        editor.set_attribute(node, "group", count)
    for value in group.values:
        if value.shape is not None and len(value.shape) > 1:
            dims = [count if axis == 1 else size for axis, size in enumerate(value.shape)]
            editor.set_shape(value, ir.Shape(dims))
    for value in group.joined:
        if value.shape is not None and isinstance(width := value.shape[1], int):
            dims = [width - len(gone) if axis == 1 else d for axis, d in enumerate(value.shape)]
            editor.set_shape(value, ir.Shape(dims))


def _by_operand(cuts: Iterable[Cut]) -> Iterator[tuple[Cut, list[int]]]:
    """Each constant operand once, with all the places where the channels begin in it."""
    found: dict[tuple[ir.Node, int, int], tuple[Cut, list[int]]] = {}
    for cut in cuts:
        found.setdefault((cut.node, cut.index, cut.axis), (cut, []))[1].append(cut.offset)
    yield from found.values()


def _replace(editor: Editor, cut: Cut, array: npt.NDArray[Any], left: int) -> None:
    """Give one user its own constant: others may share the old one."""
    old = cut.node.inputs[cut.index]
    name = f"{cut.node.outputs[0].name}__operand{cut.index}_axis{cut.axis}_keep{left}"
    editor.set_input(cut.node, cut.index, editor.initializer(name, array))
    if old is not None and old.is_initializer() and not (old.uses() or old.is_graph_output()):
        editor.drop_initializer(old)


def _rounded(width: int, ratio: float, block: int) -> int:
    """The width that is left, to the nearest multiple of the block, one block at least."""
    return max(round(width * (1 - ratio) / block), 1) * block
