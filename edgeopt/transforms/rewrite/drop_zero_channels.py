"""Channels that do not depend on the input, because their weights are zero, taken out.

    Conv(f(Conv(x, [W; 0], [b; c])), [V U], d)  =  Conv(f(Conv(x, W, b)), V, d + U f(c))

So channels that a pruning tool has set to zero, or that training has let die, stop costing. What
such a channel is (its bias, behind normalizations, activations, pools, residuals and gates) is
followed to every layer that reads it, and goes into the bias there; everything between becomes
narrower (the same dependencies as in `prune`, place by place). A scale of zero in a normalization
counts too.

It must not fire where the input decides, where one channel that goes with it is not fixed (the
other side of a residual), where a layer that pads reads another number than zero (a padded zero
is not that number), in a product with no bias to take it, or on outputs of the model; one
channel of each kind stays.
Imperative, since zeros are values and their way is open. An infinite input times a zero weight was
NaN, and is left out. ONNX Runtime does nothing of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.channels.edits import Cut
from edgeopt.transforms.channels.groups import Dependencies, Group
from edgeopt.transforms.channels.removal import remove
from edgeopt.transforms.local_rule import floating, input_of, integer, set_constant, site_of
from edgeopt.transforms.rewrite._fixed_channels import (
    Floats,
    Known,
    fixed_channels,
    pads_nothing,
    sums_of,
)

NAME = "drop_zero_channels"
Units = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Reader:
    """A layer that reads fixed channels, and what they are at its places."""

    cut: Cut
    places: npt.NDArray[np.int64]
    numbers: Floats


class DropZeroChannels:
    """Exact where the input is finite."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a group of channels, some of which are fixed."""
        del offer
        known = fixed_channels(model.graph)
        if not known:
            return ()
        groups = Dependencies(model).groups
        found = [group.name for group in groups if _gone(group, known).any()]
        return tuple(Action.of(NAME, name) for name in found)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Move what they are into the biases behind, and remove them."""
        del evidence
        known = fixed_channels(editor.graph)
        found = Dependencies(editor.model)
        group = found.group(action.site)
        if group is None:
            return Rejection(reason=found.why_none(action.site))
        gone = _gone(group, known)
        if not gone.any():
            return Rejection(
                reason="none of its channels is fixed, or one that reads them keeps it"
            )
        for reader in _readers(group, gone, known):
            _fold(editor, reader)
        found = Dependencies(editor.model)
        again = found.group(action.site)
        assert again is not None, "biases change no dependency"
        reason = remove(editor, found, again, np.flatnonzero(~gone))
        return action if reason is None else Rejection(reason=reason)


def _gone(group: Group, known: Known) -> Units:
    """Units that every reader can do without; one of each kind stays."""
    gone = np.ones(group.width, np.bool_)
    for cut in group.readers:
        for labels in cut.labels:
            units = np.where(labels >= 0, group.unit_of[labels], -1)
            kept = ~_can_go(cut, known, len(units))
            gone[units[kept & (units >= 0)]] = False
    for stratum in group.strata:
        if gone[stratum].all():
            gone[stratum[0]] = False
    return gone


def _can_go(cut: Cut, known: Known, size: int) -> Units:
    """Places of a reader whose number it can take into its bias."""
    numbers = _numbers(cut, known, size)
    if numbers is None:
        return np.zeros(size, np.bool_)
    zero = (numbers == 0).all(axis=0)
    return zero | ~np.isnan(numbers).any(axis=0) if _takes_numbers(cut) else zero


def _numbers(cut: Cut, known: Known, size: int) -> Floats | None:
    """What a reader's places hold [stretches, size]: one stretch a group of a convolution."""
    held = None if cut.source is None else known.get(cut.source[0])
    if held is None or cut.source is None or held.axis != cut.source[1]:
        return None
    return held.numbers.reshape(-1, size) if len(held.numbers) % size == 0 else None


def _takes_numbers(cut: Cut) -> bool:
    """Whether a layer has a bias that another number than zero can go into."""
    node = cut.node
    bias = input_of(node, 2)
    open_ = bias is not None and array_of(bias) is None
    if open_ or array_of(input_of(node, 1)) is None or node.domain or cut.index != 1:
        return False
    if node.op_type == "Gemm":
        return floating(node, "beta", 1.0) == 1.0
    return node.op_type == "Conv" and integer(node, "group", 1) == 1 and pads_nothing(node)


def _readers(group: Group, gone: Units, known: Known) -> list[_Reader]:
    """Layers into whose bias something goes."""
    found: list[_Reader] = []
    for cut in group.readers:
        units = group.units_at(cut.labels)
        places = np.flatnonzero((units >= 0) & gone[units])
        numbers = _numbers(cut, known, len(units))
        if numbers is not None and numbers[:, places].any():
            found.append(_Reader(cut, places, numbers[0, places]))
    return found


def _fold(editor: Editor, reader: _Reader) -> None:
    node = reader.cut.node
    weight, bias = array_of(input_of(node, 1)), array_of(input_of(node, 2))
    assert weight is not None, "the match has seen it"
    added: npt.NDArray[Any] = sums_of(node, weight)[:, reader.places] @ reader.numbers
    whole = added if bias is None else bias.astype(np.float64) + added
    name = f"{site_of(node)}/{NAME}/bias"
    set_constant(editor, node, 2, name, whole.astype(weight.dtype))


PLUGIN = DropZeroChannels()
