"""Remove channels of a group at random: what every other criterion has to beat.

The order follows from the group's name, so that a replay removes the same ones. Must not fire on
channels whose removal `channels` does not prove.
"""

import zlib
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.base import Evidence
from edgeopt.transforms.channels.groups import Dependencies, Group, Indices
from edgeopt.transforms.prune._channels import ChannelRemoval, Orders


def _orders(
    model: ir.Model, found: Dependencies, groups: Sequence[Group], evidence: Evidence
) -> Orders:
    del model, found, evidence
    return {group.name: _shuffled(group) for group in groups}


def _shuffled(group: Group) -> Indices:
    generator = np.random.default_rng(zlib.crc32(group.name.encode()))
    return generator.permutation(group.width).astype(np.int64)


PLUGIN = ChannelRemoval(name="channels_random", criterion=_orders, control=True)
