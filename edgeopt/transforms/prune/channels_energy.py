"""Remove the channels that contribute least: mean square times the weights that read them.

    importance of j  =  E[x_j^2] |w_j|^2        summed over all layers that read it

What is lost where nothing is repaired and channels are independent. One pass over the samples,
and no matrix: meant for groups that are too wide for `channels_greedy`. Must not fire on channels
whose removal `channels` does not prove, nor without samples.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.base import Evidence
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders, ascending
from edgeopt.transforms.prune._readers import OnDemand, Readers
from edgeopt.transforms.prune.channels_greedy import is_narrow


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del found
    seen = Readers(model, groups, evidence, covariance=False)

    def rank(group: Group) -> Indices | None:
        listed = seen.of(group)
        energy = np.zeros(group.width)
        for one in listed:
            each = one.square * one.norms
            np.add.at(energy, one.units, each / max(float(each.sum()), 1e-30))
        return ascending(energy.tolist()) if listed else None

    return OnDemand(groups, rank)


def _is_wide(group: Group) -> bool:
    return not is_narrow(group)


PLUGIN = ChannelRemoval(
    name="channels_energy", criterion=_orders, needs_data=True, offered=_is_wide
)
