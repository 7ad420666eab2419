"""Reshapes between free sizes: every net is looked at, and what can be removed equals unread."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.prune_groups import TOLERANCE, difference, removed, some_units, unread
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.channels.groups import Dependencies

BATCH, CHANNELS, LENGTH = 2, 8, 3
TARGETS = (
    (0, 0, 0, 0),
    (0, 0, -1),
    (0, CHANNELS, -1),
    (0, -1),
    (-1, CHANNELS, 1, LENGTH),
    (0, 1, CHANNELS, -1),
    (-1, 1, LENGTH),
    (0, 0, 1, 0, 1),
    (0, 4, 2, -1),
    (1, -1, CHANNELS, LENGTH),
    (0, 1, 0, 1, -1),
    (-1,),
)


def _net(target: tuple[int, ...], before: tuple[object, ...]) -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "a", (4, CHANNELS), kernel=1)
    b.node("Relu", ["a"], "r")
    b.node("Reshape", ["r", b.constant("shape", np.array(target))], "reshaped")
    b.node("Neg", ["reshaped"], "n")
    back = b.constant("back", np.array([-1, CHANNELS, 1, LENGTH]))
    b.conv(b.node("Reshape", ["n", back], "again"), "y", (CHANNELS, 4), kernel=1)
    model = b.model([("x", "float32", (BATCH, 4, 1, LENGTH))], [("y", "float32", ())], opset=18)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, before, strict=True):
        if isinstance(size, str):
            dim.dim_param = size
    return model


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "before", [("n", 4, 1, LENGTH), (BATCH, 4, 1, "t"), ("n", 4, 1, "t"), ("n", 4, "h", "t")]
)
def test_a_reshape_of_free_sizes(target: tuple[int, ...], before: tuple[object, ...]) -> None:
    """No size is taken for a number that is not one."""
    model = _net(target, before)
    graph = opened(model)
    generator = np.random.default_rng(5)
    fed = _net(target, (BATCH, 4, 1, LENGTH))
    for group in Dependencies(graph).groups:
        kept = some_units(group, generator)
        smaller = removed(graph, group.name, kept)
        if isinstance(smaller, str):
            continue
        feeds = random_feeds(fed, 1)
        assert difference(unread(graph, group.name, kept), smaller, feeds) <= TOLERANCE


def test_ones_beside_a_free_size() -> None:
    """One channel and one row become nothing where the length is free: no unit to remove."""
    b = Builder()
    b.conv("x", "a", (4, CHANNELS), kernel=1)
    b.conv(b.node("Relu", ["a"], "r"), "one", (CHANNELS, 1), kernel=1)
    b.node("Reshape", ["one", b.constant("shape", np.array([-1]))], "y")
    model = b.model([("x", "float32", (1, 4, 1, "t"))], [("y", "float32", ("t",))], opset=18)
    shapes = (("a", CHANNELS), ("r", CHANNELS), ("one", 1))
    model.graph.value_info.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, channels, 1, "t"))
        for name, channels in shapes
    )
    assert [group.name for group in Dependencies(opened(model)).groups] == ["a"]
