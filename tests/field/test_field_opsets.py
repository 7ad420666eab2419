"""Operators without integer kernels and old operator sets: rows 10, 11, 12, 24 of the issues."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.quantize.static_qdq import PLUGIN as STATIC
from tests.field.as_user import (
    SMALL_IMAGE,
    alone,
    built,
    guess,
    images,
    integers,
    offered,
    placement,
    signal_db,
    space_of,
)


def _old(opset: int) -> onnx.ModelProto:
    b = Builder()
    b.conv("x", "first", (3, 8))
    b.node("Relu", ["first"], "relu")
    b.conv("relu", "y", (8, 4))
    return b.model(*images(3, 4), opset=opset)


@pytest.mark.parametrize("opset", [9, 11, 12])
def test_old_operator_sets_hold_scales_a_channel(opset: int, tmp_path: Path) -> None:
    """INC 819: below opset 13 there is no per-channel form, so the model is raised first."""
    model = _old(opset)
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    assert graph.opset_imports[""] >= 13
    assert signal_db(model, graph) > 30
    assert placement(graph, SMALL_IMAGE).ran == 2


def test_what_cannot_be_raised_is_refused(tmp_path: Path) -> None:
    """INC 819: on a graph that stays at opset 11 nothing is offered, and asking says why."""
    model = _old(11)
    graph = graphs.as_graph(model)
    space = space_of(model, tmp_path)
    assert STATIC.sites(graph, space.offer) == ()
    action = Action.of("static_qdq", "first", version=STATIC.version, activation="uint8")
    refused = STATIC.apply(Editor(graph), action, evidence_of(model, ArtifactStore(tmp_path)))
    assert isinstance(refused, Rejection)
    assert "opset 11 has no per-channel DequantizeLinear" in refused.reason


def test_dynamic_convolutions(tmp_path: Path) -> None:
    """ORT 12558: nothing of ours makes a ConvInteger, which older runtimes do not load."""
    space = space_of(_old(17), tmp_path)
    names = [name for name, _ in space.standard() if not name.startswith("ort_")]
    made = {
        node.op_type
        for name in names
        for node in space.workshop.build(guess(space, name)).graph.graph
    }
    assert "Conv" in made
    assert "ConvInteger" not in made
    assert not offered(space, "dynamic_matmul")


def test_gru(tmp_path: Path) -> None:
    """ORT 9796: a GRU has no integer kernel; its weights are stored small, and it is said so."""
    b = Builder()
    sizes = ((1, 96, 16), (1, 96, 32), (1, 192))
    names = [b.weight(f"gru.{index}", *size) for index, size in enumerate(sizes)]
    b.nodes.append(helper.make_node("GRU", ["x", *names], ["y"], "gru", hidden_size=32))
    model = b.model([("x", "float32", ("T", "N", 16))], [("y", "float32", ("T", 1, "N", 32))])
    space = space_of(model, tmp_path)
    graph = built(space, guess(space, "small_int8"))
    assert signal_db(model, graph) > 40
    assert len(to_bytes(graph)) < 0.5 * len(model.SerializeToString())
    assert {layer.operator for layer in placement(graph, _steps(16)).layers} >= {"GRU"}
    assert [each.transform for each in guess(space, "small_int8").actions] == ["weight_only_int8"]


def test_gru_beside_integers_is_named(tmp_path: Path) -> None:
    """ORT 9796: behind integer layers the report says that the GRU stayed float, and why."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 16, 16)], "product")
    names = [
        b.weight(f"gru.{index}", *size) for index, size in enumerate(((1, 24, 16), (1, 24, 8)))
    ]
    b.nodes.append(helper.make_node("GRU", ["product", *names], ["y"], "gru", hidden_size=8))
    model = b.model([("x", "float32", (4, 2, 16))], [("y", "float32", (4, 1, 2, 8))])
    space = space_of(model, tmp_path)
    found = placement(alone(space, *offered(space, "dynamic_matmul")), _steps(16))
    assert any("GRU has no integer kernel" in sentence for sentence in found.stayed)


def test_lstm(tmp_path: Path) -> None:
    """ORT 5747: an LSTM becomes integer with ranges at run time; static is not offered for it."""
    model = graphs.lstm(hidden=32)
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    found = placement(graph, graphs.random_feeds(model)[0])
    assert signal_db(model, graph) > 30
    assert (found.asked, found.ran) == (1, 1)
    assert not offered(space, "static_qdq")
    assert len(to_bytes(graph)) < 0.6 * len(model.SerializeToString())


def _steps(width: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(4, 2, width)).astype(np.float32)}
