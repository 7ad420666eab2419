"""Weights inside If and Loop: row 8 of the public issues."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from edgeopt.core.data import Feed
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from tests.field.as_user import (
    alone,
    built,
    guess,
    integers,
    offered,
    placement,
    signal_db,
    space_of,
)

WIDTH = 32
ROWS: tuple[str, str, tuple[int, int]] = ("x", "float32", (4, WIDTH))


def _info(name: str, kind: int = onnx.TensorProto.FLOAT, shape: tuple[int, ...] = (4, WIDTH)):
    return helper.make_tensor_value_info(name, kind, shape)


def _branches() -> onnx.ModelProto:
    """If(then: MatMul W, else: MatMul W and Neg) on the sign of the sum."""
    b = Builder()
    b.node("ReduceSum", ["x"], "total", keepdims=0)
    b.node("Greater", ["total", b.constant("zero", np.float32(0))], "positive")
    bodies: list[onnx.GraphProto] = []
    for seed, name in enumerate(("then", "else"), start=1):
        inner = Builder(seed)
        value = inner.node("MatMul", ["x", inner.weight(f"{name}.w", WIDTH, WIDTH)], f"{name}.mm")
        value = value if name == "then" else inner.node("Neg", [value], "else.neg")
        bodies.append(helper.make_graph(inner.nodes, name, [], [_info(value)], inner.initializers))
    b.node("If", ["positive"], "y", then_branch=bodies[0], else_branch=bodies[1])
    return b.model([ROWS], [("y", "float32", (4, WIDTH))])


def _both_ways() -> list[Feed]:
    noise = np.random.default_rng(2).normal(size=(6, 4, WIDTH)).astype(np.float32)
    return [{"x": np.abs(one) * sign} for one, sign in zip(noise, (1, -1) * 3, strict=True)]


def test_products_in_both_branches(tmp_path: Path) -> None:
    """ORT 8488: the products in both branches become integer, and each branch runs so."""
    model, feeds = _branches(), _both_ways()
    space = space_of(model, tmp_path, feeds=feeds)
    actions = offered(space, "dynamic_matmul")
    assert {action.site for action in actions} == {"then.mm", "else.mm"}
    graph = built(space, guess(space, "int8_everything"))
    assert signal_db(model, graph, feeds) > 30
    for feed in feeds[:2]:
        found = placement(graph, feed)
        assert found.asked == 2
        assert found.ran == 1
    assert len(to_bytes(graph)) < 0.6 * len(model.SerializeToString())


def _loop(rounds: int) -> onnx.ModelProto:
    inner = Builder(3)
    inner.node("MatMul", ["state", inner.weight("loop.w", WIDTH, WIDTH)], "loop.mm")
    inner.node("Tanh", ["loop.mm"], "next")
    inner.node("Identity", ["goes_on"], "still")
    given = [
        _info("round", onnx.TensorProto.INT64, ()),
        _info("goes_on", onnx.TensorProto.BOOL, ()),
        _info("state"),
    ]
    made = [_info("still", onnx.TensorProto.BOOL, ()), _info("next")]
    body = helper.make_graph(inner.nodes, "body", given, made, inner.initializers)
    b = Builder()
    b.node("Loop", [b.constant("rounds", np.int64(rounds)), "", "x"], "y", body=body)
    return b.model([ROWS], [("y", "float32", (4, WIDTH))])


def test_a_loop(tmp_path: Path) -> None:
    """ORT 18681: a product in the body of a Loop, forty times round."""
    model = _loop(40)
    space = space_of(model, tmp_path)
    graph = alone(space, *offered(space, "dynamic_matmul"))
    assert signal_db(model, graph) > 20
    assert (placement(graph, graphs.random_feeds(model)[0]).ran or 0) >= 1


def test_a_loop_of_a_few_rounds(tmp_path: Path) -> None:
    """ORT 18681: eight times round, the loop goes and each of its products is a group."""
    model = _loop(8)
    space = space_of(model, tmp_path)
    graph = built(space, integers(space))
    assert "Loop" not in {node.op_type for node in graph.graph}
    assert signal_db(model, graph) > 20
    assert (placement(graph, graphs.random_feeds(model)[0]).ran or 0) >= 8


def test_static_in_branches_is_not_offered(tmp_path: Path) -> None:
    """ORT 8488: values inside a branch cannot be calibrated, so static integers are no choice."""
    space = space_of(_branches(), tmp_path, feeds=_both_ways())
    assert not offered(space, "static_qdq")
    assert [choice.name for choice in space.choices if choice.family == "quantize"]
