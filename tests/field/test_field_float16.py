"""Half precision that crashes, overflows or is slow: rows 34, 35, 36 and 39 of the issues."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import checker
from onnx.reference import ReferenceEvaluator

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.core.profile import DeviceProfile
from edgeopt.targets.profiles import load_profile
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.transforms.base import Offer
from edgeopt.transforms.emulate.half import out_of_half
from edgeopt.transforms.replay import ActionRejected
from edgeopt.transforms.space import GraphSpace
from tests.field.as_user import alone, images, ratio_db, signal_db, space_of

HALF = Action.of("float16", "*")
FAST_IN_HALF = DeviceProfile(
    name="field", title="field", architecture="aarch64", float16=("CUDAExecutionProvider",)
)


def _in_types(graph: ir.Model, feed: Feed) -> np.ndarray:
    """What numpy computes in the types that the graph says: a CPU's runtime casts them away."""
    with np.errstate(over="ignore", invalid="ignore"):
        return ReferenceEvaluator(ir.to_proto(graph)).run(None, dict(feed))[0]


def _kinds(graph: ir.Model, dtype: ir.DataType) -> list[str]:
    return [n.op_type for n in graph.graph if n.outputs[0].dtype is dtype and n.op_type != "Cast"]


def test_nodes_stay_in_order(tmp_path: Path) -> None:
    """onnxconverter-common 208: inputs and outputs stay float32 and every Cast is in its place."""
    b = Builder()
    b.conv("x", "conv", (3, 8))
    b.node("Relu", ["conv"], "y")
    model = b.model(*images(3, 8))
    graph = alone(space_of(model, tmp_path), HALF)
    checker.check_model(ir.to_proto(graph), full_check=True)
    assert [v.dtype for v in (*graph.graph.inputs, *graph.graph.outputs)] == [ir.DataType.FLOAT] * 2
    assert _kinds(graph, ir.DataType.FLOAT16) == ["Conv", "Relu"]
    assert signal_db(model, graph) > 50


def test_weights_that_half_cannot_hold(tmp_path: Path) -> None:
    """ORT 21345: weights of a million stay in float32, and nothing becomes NaN."""
    b = Builder()
    b.constant("w", np.random.default_rng(0).normal(0, 1e6, (8, 3, 3, 3)).astype(np.float32))
    b.node("Conv", ["x", "w"], "large", kernel_shape=[3, 3], pads=[1] * 4)
    b.node("Mul", ["large", b.constant("small", np.float32(1e-6))], "usual")
    b.conv("usual", "y", (8, 4))
    model = b.model(*images(3, 4))
    graph = alone(space_of(model, tmp_path), HALF)
    assert signal_db(model, graph) > 50
    weight = next(node for node in graph.graph if node.op_type == "Conv").inputs[1]
    assert weight is not None
    assert weight.dtype is ir.DataType.FLOAT
    assert "Conv" in _kinds(graph, ir.DataType.FLOAT16)


def test_every_node_blocked(tmp_path: Path) -> None:
    """ORT 21345: with every node named to stay in float32 the action is refused, not half done."""
    b = Builder()
    b.conv("x", "conv", (3, 8))
    b.node("Relu", ["conv"], "y")
    space = space_of(b.model(*images(3, 8)), tmp_path)
    with pytest.raises(ActionRejected, match="nothing of it can be in half precision"):
        alone(space, Action.of("float16", "*", keep="conv,y"))


def _root_of_mean_square() -> onnx.ModelProto:
    b = Builder()
    b.node("Mul", ["x", b.constant("gain", np.float32(300))], "large")
    b.node("Mul", ["large", "large"], "square")
    b.node("ReduceMean", ["square"], "mean", axes=[-1], keepdims=1)
    b.node("Sqrt", ["mean"], "root")
    b.node("Div", ["large", "root"], "unit")
    b.node("MatMul", ["unit", b.weight("w", 64, 8)], "y")
    return b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 8))])


def _large_mean() -> onnx.ModelProto:
    b = Builder()
    b.node("Relu", ["x"], "relu")
    b.node("ReduceMean", ["relu"], "y", axes=[2, 3], keepdims=1)
    shape = ("N", 2, 512, 512)
    return b.model([("x", "float32", shape)], [("y", "float32", ("N", 2, 1, 1))])


@pytest.mark.parametrize(
    ("net", "problem"), [(_root_of_mean_square, "overflow"), (_large_mean, "sum")]
)
def test_overflow_that_a_cpu_hides(net, problem: str, tmp_path: Path) -> None:
    """onnxconverter-common 323: squares and sums beyond 65504 are found, and stay in float32."""
    model = net()
    feeds = graphs.random_feeds(model, 3, seed=1, free=1)
    space = space_of(model, tmp_path, feeds=feeds)
    found = out_of_half(space.workshop.normalized, space.workshop.evidence)
    assert problem in {each.problem for each in found}
    assert all("65504" in each.sentence for each in found)
    graph = alone(space, HALF)
    assert _kinds(graph, ir.DataType.FLOAT16)
    made, expected = _in_types(graph, feeds[0]), _in_types(graphs.as_graph(model), feeds[0])
    assert np.isfinite(made).all()
    assert ratio_db([expected], [made]) > 50


def test_half_is_offered_where_it_is_fast(tmp_path: Path) -> None:
    """ORT 10919: on x86 half precision is slower, so the profile has none, and it is no candidate.

    The device that computes fast in it gets the candidate.
    """
    model = graphs.conv_chain()
    space = space_of(model, tmp_path)
    assert not [name for name, _ in space.standard() if "float16" in name]
    for name, provider, fast in (
        ("x86-vnni", "CPUExecutionProvider", False),
        ("jetson-orin-nano", "CUDAExecutionProvider", True),
    ):
        assert bool(load_profile(name).on(provider).float16) == fast
    fast_space = GraphSpace(space.workshop, Offer(profile=FAST_IN_HALF))
    assert [name for name, _ in fast_space.standard() if "float16" in name]
