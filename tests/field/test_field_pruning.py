"""Pruning that fails or gains nothing: rows 55 and 56 of the public issues."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prune_exam import examine_prune
from edgeopt.transforms.prune.channels_l1 import PLUGIN
from edgeopt.transforms.replay import ActionRejected
from tests.field.as_user import alone, images, offered, space_of


def _same_twice() -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "first", (3, 16))
    b.node("Relu", ["first"], "relu")
    b.node("Concat", ["relu", "relu"], "both", axis=1)
    b.conv("both", "y", (32, 4))
    return b.model(*images(3, 4))


def _split() -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "first", (3, 16))
    node = helper.make_node("Split", ["first"], ["left", "right"], "split", axis=1, num_outputs=2)
    b.nodes.append(node)
    b.conv("left", "conv", (8, 8))
    b.node("Concat", ["conv", "right"], "both", axis=1)
    b.conv("both", "y", (16, 4))
    return b.model(*images(3, 4), opset=18)


def _shuffle() -> onnx.ModelProto:
    """1x1 in four groups, channel shuffle, depthwise, 1x1: a block of ShuffleNet."""
    b = Builder()
    b.conv("x", "first", (3, 16))
    b.conv("first", "grouped", (16, 16), kernel=1, group=4)
    apart = b.constant("apart", np.array([0, 4, 4, 8, 8]))
    together = b.constant("together", np.array([0, 16, 8, 8]))
    b.node("Reshape", ["grouped", apart], "groups")
    b.node("Transpose", ["groups"], "turned", perm=[0, 2, 1, 3, 4])
    b.node("Reshape", ["turned", together], "shuffled")
    b.conv("shuffled", "dw", (16, 16), group=16)
    b.conv("dw", "last", (16, 16), kernel=1)
    b.node("Relu", ["last"], "relu")
    b.conv("relu", "y", (16, 4))
    return b.model(*images(3, 4))


@pytest.mark.parametrize("net", [_same_twice, _split, _shuffle])
def test_removing_channels_equals_zeroing_them(net) -> None:
    """Torch-Pruning 146: whatever is offered on Concat, Split and groups is proven to be right."""
    examine_prune("channels_l1", net())


@pytest.mark.parametrize(
    ("net", "site", "reason"),
    [
        (_same_twice, "first", "its channels meet Concat 'both'"),
        (_split, "first", "its channels meet Split 'left'"),
        (_split, "conv", "its channels meet Concat 'both'"),
        (_shuffle, "first", "its channels meet Conv 'grouped'"),
        (_shuffle, "grouped", "its channels meet Conv 'grouped'"),
        (_shuffle, "y", "its channels are those of 'y', an input or output"),
        (_shuffle, "nothing", "no operator whose channels are followed"),
    ],
)
def test_what_is_not_proven_is_refused(net, site: str, reason: str, tmp_path: Path) -> None:
    """Torch-Pruning 481: channels that are joined or split stay, and asking says why."""
    space = space_of(net(), tmp_path)
    assert site not in {action.site for action in offered(space, "channels_l1")}
    wanted = Action.of("channels_l1", site, version=PLUGIN.version, keep=4)
    with pytest.raises(ActionRejected, match=reason):
        alone(space, wanted)


def test_a_shuffled_block_is_pruned_where_it_can_be(tmp_path: Path) -> None:
    """Torch-Pruning 146: the last layer of a ShuffleNet block is offered, the others are not."""
    space = space_of(_shuffle(), tmp_path)
    assert {action.site for action in offered(space, "channels_l1")} == {"last"}


@pytest.mark.parametrize("block", [4, 8, 16])
def test_widths_are_multiples_of_the_block(block: int, tmp_path: Path) -> None:
    """TensorRT 3884: 63 channels are slower than 64: only multiples of the block are offered."""
    b = Builder()
    b.conv("x", "first", (3, 64))
    b.node("Relu", ["first"], "relu")
    b.conv("relu", "y", (64, 8))
    space = space_of(b.model(*images(3, 8)), tmp_path, block=block)
    widths = [int(action.get("keep")) for action in offered(space, "channels_l1")]
    assert widths
    assert all(0 < width < 64 and width % block == 0 for width in widths)
