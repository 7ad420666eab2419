"""What was asked for against what runs: rows 28, 29, 30, 57 and 59 of the public issues."""

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.profile import QuantizationTypes
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.quantize.static_qdq import PLUGIN as STATIC
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


def test_inspect_says_what_stayed_in_float(edgeopt, tmp_path: Path) -> None:
    """ORT 26564: who looks at a quantized model sees which layers run in float, and why."""
    space = space_of(graphs.residual(), tmp_path)
    tool = next(c for name, c in space.standard() if name.startswith("ort_static:int8"))
    path = tmp_path / "given.onnx"
    path.write_bytes(to_bytes(built(space, tool.recipe)))
    done = edgeopt("inspect", path)
    assert done.code == 0, done.err
    assert "In integers here:" in done.out
    assert "stayed float although it was asked for in integers" in done.out
    assert "in float between integers" in done.out


def test_inspect_says_what_a_float_model_would_leave_in_float(edgeopt, tmp_path: Path) -> None:
    """Before any search: which layers no integers are asked for and why, and what stays between
    integers. Multiply-adds are those of a sample; without one it is said what is assumed."""
    b = Builder()
    b.conv("x", "stem", (3, 16))
    b.conv("stem", "wide", (16, 16))
    b.node("Sin", ["wide"], "odd")
    b.conv("odd", "y", (16, 16))
    free = [("x", "float32", ("N", 3, 8, 8))], [("y", "float32", ("N", 16, 8, 8))]
    path = graphs.write(b.model(*free), tmp_path)
    data = tmp_path / "data.npz"
    np.savez(data, x=np.random.default_rng(0).normal(size=(20, 3, 8, 8)).astype("f4"))
    done = edgeopt("inspect", path, "--data", data, "--sensitivity")
    assert done.code == 0, done.err
    assert "With everything asked for in integers, here: 2 operators asked, 2 ran" in done.out
    assert "Conv 'stem' stayed float because nothing asks for integers there" in done.out
    assert "Sin up to 'odd' in float between integers" in done.out
    assert "free sizes count as 1" not in done.out
    assert "free sizes count as 1" in edgeopt("inspect", path).out


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


def test_an_excluded_layer_stays_in_float(tmp_path: Path) -> None:
    """ORT PR 22969: a depthwise layer that the recipe leaves out, and so does the runtime.

    Without a border behind it the runtime gives it integer weights, and that would be a trap.
    """
    b = Builder()
    b.node("Relu", [b.conv("x", "first", (3, 8))], "relu1")
    b.node("Relu", [b.conv("relu1", "dw", (8, 8), group=8)], "relu2")
    b.conv("relu2", "y", (8, 8), kernel=1)
    model = b.model(*images(3, 8))
    space = space_of(model, tmp_path)
    graph = built(space, integers(space, without="dw"))
    found = placement(graph, SMALL_IMAGE)
    assert signal_db(model, graph) > 25
    assert found.asked == found.ran == 2
    assert found.stayed == ("Conv 'dw' stayed float because nothing asks for integers there",)
    assert found.between == ("Conv, Relu, Min up to 'relu2__bounded' in float between integers",)
    assert not found.traps
    border = next(node for node in graph.graph if node.op_type == "Min")
    for quantize, index in tuple(border.outputs[0].uses()):
        quantize.replace_input_with(index, border.inputs[0])
    graph.graph.remove(border, safe=True)
    without = placement(graph, SMALL_IMAGE)
    assert without.ran == 3
    assert without.traps == (
        "Conv 'dw' was left in float, and the runtime computes it in integers",
    )


def test_borders_do_not_depend_on_the_order(tmp_path: Path) -> None:
    """ORT PR 22889: whichever group comes first, a border stands behind enclosed layers only."""
    b = Builder()
    value = "x"
    for index in range(4):
        b.conv(value, f"c{index}", (3 if index == 0 else 8, 8))
        value = b.node("Relu", [f"c{index}"], f"r{index}" if index < 3 else "y")
    space = space_of(b.model(*images(3, 8)), tmp_path)
    actions = {action.site: action for action in offered(space, "static_qdq")}
    for on in (("c0", "c2"), ("c1", "c3"), ("c0", "c3"), ("c0", "c1", "c2", "c3")):
        found: set[tuple[str, ...]] = set()
        for order in itertools.permutations(on):
            editor = Editor(space.workshop.normalized.clone())
            space.workshop.evidence.remember_float(space.workshop.normalized)
            for site in order:
                made = STATIC.apply(editor, actions[site], space.workshop.evidence)
                assert not isinstance(made, Rejection)
            bounds = sorted(n.outputs[0].name or "" for n in editor.graph if n.op_type == "Min")
            found.add(tuple(bounds))
        enclosed = {("c0", "c2"): ("r1__bounded",), ("c1", "c3"): ("r2__bounded",)}
        assert found == {enclosed.get(on, ())}


@pytest.mark.parametrize("net", [graphs.residual, graphs.mobilenet_block, graphs.gemm_chain])
def test_every_level_computes_the_same(net, tmp_path: Path) -> None:
    """ORT 11576: integers with and without the runtime's optimizations, both near the float net."""
    model = net()
    feeds = graphs.random_feeds(model, 16, seed=1, free=8)
    space = space_of(model, tmp_path, feeds=feeds)
    graph = built(space, integers(space))
    assert offered(space, "static_qdq")
    assert signal_db(model, graph, graphs.random_feeds(model, 4, seed=2, free=8)) > 20
