"""Remove the channels of a group whose filters have the lowest L1 norm: to compare with.

"Pruning Filters for Efficient ConvNets" (Li et al., ICLR 2017): a channel's criterion is the sum
of the absolute weights that compute it. The kept ones follow from the weights alone, so a
replay on retrained weights chooses again. Measured: without repair worse than choosing at random.
Must not fire on channels whose removal `channels` does not prove.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.base import Evidence
from edgeopt.transforms.channels.groups import Dependencies, Group
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders, ascending
from edgeopt.transforms.prune._rows import Floats, rows


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del model, evidence
    return {group.name: ascending(norms(found, group).tolist()) for group in groups}


def norms(found: Dependencies, group: Group) -> Floats:
    """L1 norm of each unit, over all layers that make it."""
    total = np.zeros(group.width)
    for units, weights in rows(found, group):
        np.add.at(total, units, np.abs(weights).sum(axis=1))
    return total


PLUGIN = ChannelRemoval(name="channels_l1", criterion=_orders, control=True)
