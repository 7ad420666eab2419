"""Remove the channels of a group that a batch normalization scales least.

"Learning Efficient Convolutional Networks through Network Slimming" (Liu et al., ICCV 2017): the
criterion is |scale|, summed over the normalizations that stand behind the group's layers. It
tells something of nets that were trained with a penalty on the scales, and only as long as no
rule has folded them. To compare with. Must not fire on channels whose removal `channels` does not
prove, nor without a normalization.
"""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.base import Evidence
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders, ascending


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del model, evidence
    orders: dict[str, Indices] = {}
    for group in groups:
        total, seen = np.zeros(group.width), False
        for cut in found.cuts:
            scale = array_of(cut.node.inputs[cut.index])
            if cut.node.op_type != "BatchNormalization" or cut.index != 1 or scale is None:
                continue
            units = group.units_at(cut.labels)
            at = units >= 0
            np.add.at(total, units[at], np.abs(scale[at]))
            seen |= bool(at.any())
        if seen:
            orders[group.name] = ascending(total.tolist())
    return orders


PLUGIN = ChannelRemoval(name="channels_bn_scale", criterion=_orders, control=True)
