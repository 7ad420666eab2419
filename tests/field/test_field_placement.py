"""What was asked for against what runs: rows 28, 29, 30, 57 and 59 of the public issues."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.profile import QuantizationTypes
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from tests.field.as_user import (
    SMALL_IMAGE,
    alone,
    built,
    images,
    integers,
    offered,
    placement,
    signal_db,
    space_of,
)


def _silu() -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "stem", (3, 8))
    b.node("Sigmoid", ["stem"], "gate")
    b.node("Mul", ["stem", "gate"], "silu")
    b.conv("silu", "y", (8, 4))
    return b.model(*images(3, 4))


@pytest.mark.parametrize("net", [graphs.residual, _silu, graphs.mobilenet_block])
def test_types_that_the_runtime_computes_fast(net, tmp_path: Path) -> None:
    """ORT 17389: with the types of the device every layer is integer, without float islands."""
    model = net()
    space = space_of(model, tmp_path)
    found = placement(built(space, integers(space)), SMALL_IMAGE)
    assert found.ran == found.asked > 1
    assert found.islands == 0
    assert not found.stayed


def test_slow_types_are_named(tmp_path: Path) -> None:
    """ORT 17389: where the tool's default types leave layers in float, each is named with why."""
    model = graphs.residual()
    space = space_of(model, tmp_path)
    tool = next(
        action
        for name, candidate in space.standard()
        if name.startswith("ort_static:int8")
        for action in candidate.recipe.actions
    )
    found = placement(alone(space, tool), SMALL_IMAGE)
    assert found.ran is not None
    assert found.ran < found.asked
    assert len(found.stayed) == found.asked - found.ran
    assert all("stayed float although it was asked" in sentence for sentence in found.stayed)


@pytest.mark.parametrize("net", [graphs.residual, _silu])
def test_a_model_that_came_in_slow_types(net, tmp_path: Path) -> None:
    """ORT 20052: a model that the tool's defaults quantized becomes integer, code for code."""
    space = space_of(net(), tmp_path)
    tool = next(c for name, c in space.standard() if name.startswith("ort_static:int8"))
    given = ir.to_proto(built(space, tool.recipe))
    theirs = space_of(given, tmp_path / "given")
    action = Action.of("fast_codes", "*", activation="uint8", weight="int8")
    assert offered(theirs, "fast_codes") == [action]
    before, graph = ir.from_proto(given), alone(theirs, action)
    for feed in graphs.random_feeds(given, 2):
        off = RuntimeSettings(optimization="off")
        old, new = (Session(to_bytes(each), off).run(feed)["y"] for each in (before, graph))
        assert np.array_equal(old, new)
    slow, fast = placement(before, SMALL_IMAGE), placement(graph, SMALL_IMAGE)
    assert slow.ran is not None
    assert slow.ran < slow.asked
    assert slow.islands > 0
    assert fast.ran == fast.asked == slow.asked
    assert fast.islands == 0


@pytest.mark.parametrize("activation", ["uint8", "int8"])
def test_add_between_integers(activation: str, tmp_path: Path) -> None:
    """ORT 12487: Conv, Add and Relu in integers, or the layers that are not are named."""
    b = Builder()
    b.conv("x", "left", (3, 8), stride=2)
    b.node("MaxPool", [b.conv("x", "wide", (3, 8))], "right", kernel_shape=[2, 2], strides=[2, 2])
    b.node("Add", ["left", "right"], "sum")
    b.node("Relu", ["sum"], "relu")
    b.conv("relu", "y", (8, 4))
    model = b.model(*images(3, 4))
    space = space_of(model, tmp_path, types=QuantizationTypes(activation=activation))
    graph = built(space, integers(space))
    found = placement(graph, SMALL_IMAGE)
    assert signal_db(model, graph) > 25
    assert found.ran is not None
    assert len(found.stayed) == found.asked - found.ran
    if activation == "uint8":
        assert found.ran == 3
        assert any(layer.operator.endswith("QLinearAdd") for layer in found.layers)
        assert found.islands == 0


def test_normalization_behind_relu(tmp_path: Path) -> None:
    """ORT 9938: a normalization behind Relu is no float island between two integer layers."""
    b = Builder()
    b.conv("x", "conv", (3, 8))
    b.node("Relu", ["conv"], "relu")
    b.batchnorm("relu", "bn", 8)
    b.conv("bn", "y", (8, 4))
    model = b.model(*images(3, 4))
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    found = placement(graph, SMALL_IMAGE)
    assert signal_db(model, graph) > 25
    assert found.ran == found.asked >= 2
    assert found.islands == 0


def test_an_excluded_layer_in_integers_is_a_trap(tmp_path: Path) -> None:
    """ORT PR 22969: a depthwise layer that the recipe leaves out, and the runtime does not."""
    b = Builder()
    low, high = (b.constant(name, np.float32(v)) for name, v in (("low", 0), ("high", 6)))
    b.conv("x", "first", (3, 8))
    b.node("Clip", ["first", low, high], "first6")
    b.conv("first6", "dw", (8, 8), group=8)
    b.node("Clip", ["dw", low, high], "dw6")
    b.conv("dw6", "second", (8, 8), kernel=1)
    b.node("Add", ["second", "first6"], "y")
    model = b.model(*images(3, 8))
    space = space_of(model, tmp_path)
    graph = built(space, integers(space, without="dw"))
    found = placement(graph, SMALL_IMAGE)
    assert signal_db(model, graph) > 25
    assert found.asked == 2
    in_float = any("'dw'" in sentence for sentence in found.stayed)
    in_integers = any("'dw'" in sentence for sentence in found.traps)
    assert in_float != in_integers
    assert found.ran == found.asked + in_integers


@pytest.mark.parametrize("net", [graphs.residual, graphs.mobilenet_block, graphs.gemm_chain])
def test_every_level_computes_the_same(net, tmp_path: Path) -> None:
    """ORT 11576: integers with and without the runtime's optimizations, both near the float net."""
    model = net()
    feeds = graphs.random_feeds(model, 16, seed=1, free=8)
    space = space_of(model, tmp_path, feeds=feeds)
    graph = built(space, integers(space))
    assert offered(space, "static_qdq")
    assert signal_db(model, graph, graphs.random_feeds(model, 4, seed=2, free=8)) > 20
