"""Pruning that fails or gains nothing: rows 55 and 56 of the public issues."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder
from edgeopt.testing.prune_exam import examine_prune
from edgeopt.transforms.prune.channels_l1 import PLUGIN
from edgeopt.transforms.replay import ActionRejected
from tests.field.as_user import SMALL_IMAGE, alone, images, offered, space_of


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


def _dense() -> onnx.ModelProto:
    """Each layer reads all before it, behind a normalization; the first is there twice."""
    b = Builder()
    b.conv("x", "first", (3, 16))
    b.conv("first", "second", (16, 8))
    b.node("Concat", ["first", "second"], "two", axis=1)
    b.batchnorm("two", "bn", 24)
    b.node("Relu", ["bn"], "relu")
    b.conv("relu", "third", (24, 12), kernel=1)
    b.node("Concat", ["first", "two", "third", "relu"], "all", axis=-3)
    b.node("MaxPool", ["all"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    b.conv("pool", "last", (76, 8))
    b.node("GlobalAveragePool", ["last"], "mean")
    b.conv("mean", "y", (8, 4), kernel=1)
    return b.model(images(3, 4)[0], [("y", "float32", ("N", 4, 1, 1))])


def _joined_output() -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "left", (3, 16))
    b.conv("x", "right", (3, 16))
    b.node("Concat", ["left", "right"], "both", axis=1)
    b.node("Relu", ["both"], "y")
    return b.model(*images(3, 32))


def _joined_sum() -> onnx.ModelProto:
    b = Builder()
    for name in ("left", "right"):
        b.conv("x", name, (3, 16))
    b.conv("x", "other", (3, 32))
    b.node("Concat", ["left", "right"], "both", axis=1)
    b.node("Add", ["both", "other"], "sum")
    b.conv("sum", "y", (32, 4))
    return b.model(*images(3, 4))


def _seen_from_a_body() -> onnx.ModelProto:
    """Both branches of an If read what nothing of the main graph reads."""
    b = Builder()
    b.conv("x", "first", (3, 16))
    b.node("Relu", ["first"], "relu")
    b.conv("first", "other", (16, 4))
    b.node("ReduceSum", ["other"], "total", keepdims=0)
    b.node("Greater", ["total", b.constant("zero", np.float32(0))], "positive")
    info = helper.make_tensor_value_info
    bodies = [
        helper.make_graph(
            [helper.make_node(operator, ["relu"], [f"{name}.made"], f"{name}.node")],
            name,
            [],
            [info(f"{name}.made", onnx.TensorProto.FLOAT, None)],
        )
        for operator, name in (("Neg", "then"), ("Abs", "else"))
    ]
    b.node("If", ["positive"], "y", then_branch=bodies[0], else_branch=bodies[1])
    return b.model(*images(3, 16))


@pytest.mark.parametrize(
    ("net", "sites"),
    [
        (_same_twice, {"first"}),
        (_split, {"first", "conv"}),
        (_shuffle, {"first", "grouped", "last"}),
        (_dense, {"first", "second", "third", "last"}),
        (_joined_output, set()),
        (_joined_sum, set()),
        (_seen_from_a_body, set()),
    ],
)
def test_removing_channels_equals_zeroing_them(net, sites: set[str]) -> None:
    """Torch-Pruning 146: behind Concat, Split, groups, shuffles, removal is proven right."""
    assert {one.action.site for one in examine_prune("channels_l1", net())} == sites


@pytest.mark.parametrize("net", [_same_twice, _dense])
def test_all_groups_of_a_concat_one_after_the_other(net, tmp_path: Path) -> None:
    """OTO 39: every group of a dense block at once, on one weight that reads them all."""
    model = net()
    space = space_of(model, tmp_path)
    smallest = {action.site: action for action in offered(space, "channels_greedy")}
    graph = alone(space, *smallest.values())
    fewer = sum(v.const_value.size for v in graph.graph.initializers.values() if v.const_value)
    assert fewer < 0.7 * sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    made = Session(to_bytes(graph)).run(SMALL_IMAGE)["y"]
    assert np.isfinite(made).all()
    for action in smallest.values():
        maker = next(n for n in graph.graph if n.outputs[0].name == action.site)
        assert maker.inputs[1] is not None
        assert maker.inputs[1].shape is not None
        assert maker.inputs[1].shape[0] == action.get("keep")


@pytest.mark.parametrize(
    ("net", "site", "reason"),
    [
        (_joined_output, "left", "its channels stay: they are those of the output 'y'"),
        (_shuffle, "y", "its channels stay: they are those of the output 'y'"),
        (_shuffle, "nothing", "no layer whose channels are followed"),
        (_seen_from_a_body, "first", "a body of an If or a loop reads"),
    ],
)
def test_what_is_not_proven_is_refused(net, site: str, reason: str, tmp_path: Path) -> None:
    """Torch-Pruning 481: channels that others see stay, and asking says why."""
    space = space_of(net(), tmp_path)
    assert site not in {action.site for action in offered(space, "channels_greedy")}
    wanted = Action.of("channels_l1", site, version=PLUGIN.version, keep=4)
    with pytest.raises(ActionRejected, match=reason):
        alone(space, wanted)


@pytest.mark.parametrize("block", [4, 8, 16])
def test_widths_are_multiples_of_the_block(block: int, tmp_path: Path) -> None:
    """TensorRT 3884: 63 channels are slower than 64: only multiples of the block are offered."""
    b = Builder()
    b.conv("x", "first", (3, 64))
    b.node("Relu", ["first"], "relu")
    b.conv("relu", "y", (64, 8))
    space = space_of(b.model(*images(3, 8)), tmp_path, block=block)
    widths = [int(action.get("keep")) for action in offered(space, "channels_greedy")]
    assert widths
    assert all(0 < width < 64 and width % block == 0 for width in widths)
