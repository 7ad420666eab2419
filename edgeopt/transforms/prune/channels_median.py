"""Remove the channels of a group that are nearest to all others: what they say is said twice.

"Filter Pruning via Geometric Median" (He et al., CVPR 2019): a channel's criterion is the sum of
the distances between its filter and all others of the layer. It follows from the weights alone.
To compare with. Must not fire on channels whose removal `channels` does not prove.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.base import Evidence
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders, ascending
from edgeopt.transforms.prune._rows import rows


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del model, evidence
    orders: dict[str, Indices] = {}
    for group in groups:
        total = np.zeros(group.width)
        for units, weights in rows(found, group):
            squares = np.einsum("ij,ij->i", weights, weights)
            apart = squares[:, np.newaxis] + squares - 2 * weights @ weights.T
            np.add.at(total, units, np.sqrt(np.maximum(apart, 0)).sum(axis=1))
        orders[group.name] = ascending(total.tolist())
    return orders


PLUGIN = ChannelRemoval(name="channels_median", criterion=_orders, control=True)
