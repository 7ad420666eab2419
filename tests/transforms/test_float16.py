"""Half precision typed into a graph, and what half precision cannot hold."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import checker, helper
from onnx.reference import ReferenceEvaluator

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.profile import DeviceProfile
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.targets.profiles import load_profile
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.quantize_exam import evidence_of, sqnr_db
from edgeopt.testing.random_graphs import networks
from edgeopt.testing.transform_exam import examine, offer, opened
from edgeopt.transforms.base import Offer, Range, Rejection
from edgeopt.transforms.emulate.half import OutOfHalf, found_in, out_of_half, sentences
from edgeopt.transforms.quantize.float16 import PLUGIN
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace

PROFILE = DeviceProfile(
    name="exam", title="exam", architecture="aarch64", float16=("CUDAExecutionProvider",)
)
OFFER = Offer(profile=PROFILE)


def in_half(
    model: onnx.ModelProto,
    folder: Path,
    *,
    feeds: Sequence[Feed] | None = None,
    keep: str = "",
) -> ir.Model:
    """The model after the action."""
    editor = Editor(opened(model))
    action = Action.of("float16", "*", keep=keep) if keep else Action.of("float16", "*")
    made = PLUGIN.apply(editor, action, evidence_of(model, ArtifactStore(folder), feeds))
    assert not isinstance(made, Rejection), made.reason
    check(editor.model)
    return editor.model


def nodes_in(graph: ir.Model, dtype: ir.DataType) -> set[str]:
    """Operators whose first output has that type, without casts."""
    return {
        node.op_type
        for node in graph.graph
        if node.outputs[0].dtype is dtype and node.op_type != "Cast"
    }


def reference(model: ir.Model, feed: Feed) -> list[npt.NDArray[Any]]:
    """What numpy computes, in the types that the graph says."""
    with np.errstate(over="ignore"):
        evaluator: Any = ReferenceEvaluator(ir.to_proto(model))
        found: Any = evaluator.run(None, dict(feed))
    return list(found)


@pytest.mark.parametrize(
    "name",
    [
        "conv_chain",
        "conv_bn",
        "mobilenet_block",
        "residual",
        "gemm_chain",
        "hardswish_spelled",
        "lstm",
    ],
)
def test_exam(name: str, tmp_path: Path) -> None:
    """On nets of every kind: contract, undo, size, and 20 dB and far more."""
    model = getattr(graphs, name)()
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    applied = examine("float16", model, evidence=evidence, offered=OFFER)
    assert len(applied) == 1
    feeds = random_feeds(model, 4, seed=2)
    assert sqnr_db(model.SerializeToString(), to_bytes(applied[0].graph), feeds) > 50


def test_half_the_size(tmp_path: Path) -> None:
    """Of a model that consists of weights, half is left."""
    model = graphs.gemm_chain((64, 64, 64, 4))
    size = len(to_bytes(in_half(model, tmp_path)))
    assert size < 0.6 * len(model.SerializeToString())


def test_not_offered_where_it_is_not_faster() -> None:
    """Never on x86 by itself, never on the CPU of a Jetson, never without data; once only."""
    graph = opened(graphs.conv_chain())
    assert not PLUGIN.sites(graph, offer())
    orin = load_profile("jetson-orin-nano")
    for provider, count in (("TensorrtExecutionProvider", 1), ("CPUExecutionProvider", 0)):
        assert len(PLUGIN.sites(graph, Offer(profile=orin.on(provider)))) == count
    assert not PLUGIN.sites(graph, Offer(profile=PROFILE, data=False))


def test_search_reaches_it(tmp_path: Path) -> None:
    """It is a standard candidate of the Jetsons' providers, the one that has no integers too."""
    model = graphs.conv_chain()
    workshop = Workshop(
        read_model(graphs.write(model, tmp_path)),
        evidence=evidence_of(model, ArtifactStore(tmp_path)),
        opset_ceiling=17,
        feed=random_feeds(model)[0],
        data_digest="sha256:data",
    )
    for provider in ("TensorrtExecutionProvider", "CUDAExecutionProvider"):
        profile = load_profile("jetson-orin-nano").on(provider)
        recipes = [one.recipe for _, one in GraphSpace(workshop, Offer(profile=profile)).standard()]
        alone = [one for one in recipes if [a.transform for a in one.actions] == ["float16"]]
        assert len(alone) == 1
        again = workshop.build(alone[0])
        assert nodes_in(again.graph, ir.DataType.FLOAT16) >= {"Conv", "Relu"}


def test_casts_are_sorted_and_types_kept(tmp_path: Path) -> None:
    """onnxconverter-common 208: outputs stay float32 and the graph is sorted, also where an
    output is read inside the graph."""
    b = Builder()
    b.conv("x", "c", (3, 4))
    b.node("Relu", ["c"], "y")
    b.conv("y", "z", (4, 2))
    model = b.model(
        [("x", "float32", ("N", 3, 6, 6))],
        [("y", "float32", ("N", 4, 6, 6)), ("z", "float32", ("N", 2, 6, 6))],
    )
    made = in_half(model, tmp_path)
    checker.check_model(  # pyright: ignore[reportUnknownMemberType]
        ir.to_proto(made), full_check=True
    )
    assert [(v.name, v.dtype) for v in made.graph.outputs] == [
        ("y", ir.DataType.FLOAT),
        ("z", ir.DataType.FLOAT),
    ]
    assert nodes_in(made, ir.DataType.FLOAT) == set()
    feeds = random_feeds(model, 2)
    assert sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > 50


def loud_conv() -> onnx.ModelProto:
    """A convolution with weights around a million, then one that brings them down."""
    b = Builder()
    b.node("Conv", ["x", b.weight("w", 4, 3, 1, 1, scale=1e6)], "c", kernel_shape=[1, 1])
    b.node("Mul", ["c", b.constant("s", np.array(1e-6, np.float32))], "m")
    b.conv("m", "y", (4, 2))
    return b.model([("x", "float32", ("N", 3, 4, 4))], [("y", "float32", ("N", 2, 4, 4))])


def test_kept_operators_keep_their_weights(tmp_path: Path) -> None:
    """onnxruntime 21345: a block list with every node is the model as it was, weights included."""
    model = loud_conv()
    made = in_half(model, tmp_path, keep="c,m")
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Conv"}
    editor = Editor(opened(model))
    everything = Action.of("float16", "*", keep="c,m,y")
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    refused = PLUGIN.apply(editor, everything, evidence)
    assert isinstance(refused, Rejection)
    assert to_bytes(editor.model) == to_bytes(opened(model))


def test_weights_out_of_range_stay_single(tmp_path: Path) -> None:
    """Weights of a million are kept in float32 with no list at all; the rest is half."""
    model = loud_conv()
    made = in_half(model, tmp_path)
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Conv"}
    assert nodes_in(made, ir.DataType.FLOAT) == {"Conv", "Mul"}
    feeds = random_feeds(model, 2)
    assert sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > 50
    assert np.isfinite(reference(made, feeds[0])[0]).all()


def root_mean_square() -> onnx.ModelProto:
    """Mul 300, square, ReduceMean, Sqrt, and a product behind them."""
    b = Builder()
    b.node("Mul", ["x", b.constant("k", np.array(300, np.float32))], "loud")
    b.node("Mul", ["loud", "loud"], "square")
    b.node("ReduceMean", ["square"], "mean", axes=[1], keepdims=1)
    b.node("Sqrt", ["mean"], "root")
    b.node("Div", ["x", "root"], "n")
    b.node("MatMul", ["n", b.weight("w", 8, 4)], "y")
    return b.model([("x", "float32", (4, 8))], [("y", "float32", (4, 4))])


def test_squares_overflow(tmp_path: Path) -> None:
    """onnxconverter-common 323: all in half, numpy says infinity and 0; guarded, it is right."""
    model = root_mean_square()
    feeds = [{"x": feed["x"] * 3} for feed in random_feeds(model, 4)]
    with np.errstate(over="ignore"):
        x = feeds[0]["x"].astype(np.float16) * np.float16(300)
        assert np.isinf(np.sqrt(np.mean(x * x, axis=1))).any()
    evidence = evidence_of(model, ArtifactStore(tmp_path), feeds)
    found = {one.name: one.problem for one in out_of_half(opened(model), evidence)}
    assert found["square"] == "overflow"
    made = in_half(model, tmp_path, feeds=feeds)
    assert "MatMul" in nodes_in(made, ir.DataType.FLOAT16)
    assert {"Mul", "ReduceMean"} <= nodes_in(made, ir.DataType.FLOAT)
    exact = Session(model.SerializeToString()).run(feeds[0])["y"]
    for values in (reference(made, feeds[0])[0], Session(to_bytes(made)).run(feeds[0])["y"]):
        np.testing.assert_allclose(values, exact, atol=0.01)


def test_long_means_add_up(tmp_path: Path) -> None:
    """onnxruntime 11384: a mean over 512 x 512 of values near 1 sums to 262144 on its way."""
    b = Builder()
    b.node("ReduceMean", ["x"], "mean", axes=[2, 3], keepdims=1)
    b.node("Relu", ["x"], "r")
    b.node("Sub", ["r", "mean"], "y")
    shape = (1, 1, 512, 512)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)])
    feeds = [{"x": np.full(shape, 1.0, np.float32)}]
    evidence = evidence_of(model, ArtifactStore(tmp_path), feeds)
    found = out_of_half(opened(model), evidence)
    assert found == [OutOfHalf(name="mean", operator="ReduceMean", problem="sum", largest=2.0**18)]
    made = in_half(model, tmp_path, feeds=feeds)
    assert nodes_in(made, ir.DataType.FLOAT) == {"ReduceMean"}
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Relu", "Sub"}


def test_epsilon_that_would_be_zero(tmp_path: Path) -> None:
    """1e-12 is zero in half: what adds it, roots it and divides by it stays in float32."""
    b = Builder()
    b.node("ReduceMean", ["x"], "variance", axes=[1], keepdims=1)
    b.node("Add", ["variance", b.constant("eps", np.array(1e-12, np.float32))], "safe")
    b.node("Sqrt", ["safe"], "root")
    b.node("Div", ["x", "root"], "n")
    b.node("Relu", ["n"], "y")
    model = b.model([("x", "float32", (2, 4))], [("y", "float32", (2, 4))])
    made = in_half(model, tmp_path, feeds=[{"x": np.ones((2, 4), np.float32)}])
    assert nodes_in(made, ir.DataType.FLOAT) == {"ReduceMean", "Add", "Sqrt", "Div"}
    quiet = reference(made, {"x": np.zeros((2, 4), np.float32)})[0]
    assert np.array_equal(quiet, np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(
    ("epsilon", "source"), [(1e-12, "x"), (1e-12, "r"), (1e-5, "x"), (1e-5, "r")]
)
def test_spelled_normalization_keeps_one_precision(
    epsilon: float, source: str, tmp_path: Path
) -> None:
    """The runtime fuses a spelled LayerNormalization past casts: all of it is on one side."""
    b = Builder()
    b.node("Relu", ["x"], "r")
    b.node("ReduceMean", [source], "m", axes=[-1], keepdims=1)
    b.node("Sub", [source, "m"], "d")
    b.node("Pow", ["d", b.constant("two", np.array(2, np.float32))], "p")
    b.node("ReduceMean", ["p"], "v", axes=[-1], keepdims=1)
    b.node("Add", ["v", b.constant("eps", np.array(epsilon, np.float32))], "e")
    b.node("Sqrt", ["e"], "s")
    b.node("Div", ["d", "s"], "n")
    b.node("Mul", ["n", b.weight("scale", 8)], "g")
    b.node("Add", ["g", b.weight("shift", 8)], "l")
    b.node("Add", ["l", "r"], "sum")
    b.node("MatMul", ["sum", b.weight("w", 8, 8)], "y")
    model = b.model([("x", "float32", (4, 8))], [("y", "float32", (4, 8))])
    made = in_half(model, tmp_path)
    kept = epsilon < 1e-9 or source == "x"
    whole = {"ReduceMean", "Sub", "Pow", "Add", "Sqrt", "Div", "Mul"}
    whole |= {"Relu"} if source == "r" else set[str]()
    assert nodes_in(made, ir.DataType.FLOAT) == (whole if kept else set())
    assert {"Add", "MatMul"} <= nodes_in(made, ir.DataType.FLOAT16)
    for level in ("off", "all"):
        session = Session(to_bytes(made), RuntimeSettings(optimization=level))
        assert np.isfinite(session.run(random_feeds(model, 1)[0])["y"]).all()
    assert sqnr_db(model.SerializeToString(), to_bytes(made), random_feeds(model, 2)) > 50


def test_bounds_are_clipped(tmp_path: Path) -> None:
    """A Clip up to 3.4e38 has the largest half as its bound; infinities stay infinities."""
    b = Builder()
    for name, value in (("low", 0.0), ("high", 3.4e38)):
        b.constant(name, np.array(value, np.float32))
    b.node("Clip", ["x", "low", "high"], "c")
    b.node("Where", ["mask", "c", b.constant("never", np.array(-np.inf, np.float32))], "y")
    model = b.model(
        [("x", "float32", (2, 3)), ("mask", "bool", (2, 3))], [("y", "float32", (2, 3))]
    )
    feed = {"x": np.ones((2, 3), np.float32), "mask": np.array([[True, False, True]] * 2)}
    made = in_half(model, tmp_path, feeds=[feed])
    assert nodes_in(made, ir.DataType.FLOAT) == set()
    np.testing.assert_array_equal(reference(made, feed)[0], [[1, -np.inf, 1]] * 2)


def test_bodies_see_single_precision(tmp_path: Path) -> None:
    """A branch of an If reads a value from outside in float32, as it was written for."""
    inner = [
        helper.make_graph(
            [helper.make_node(operator, ["r"], [out])],
            out,
            [],
            [helper.make_tensor_value_info(out, onnx.TensorProto.FLOAT, (2, 3))],
        )
        for operator, out in (("Neg", "a"), ("Abs", "e"))
    ]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("If", ["c"], ["i"], then_branch=inner[0], else_branch=inner[1]),
        helper.make_node("Add", ["i", "r"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "branches",
        [info("x", onnx.TensorProto.FLOAT, (2, 3)), info("c", onnx.TensorProto.BOOL, ())],
        [info("y", onnx.TensorProto.FLOAT, (2, 3))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(False)}
    made = in_half(model, tmp_path, feeds=[feed])
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Relu", "Add"}
    assert np.array_equal(Session(to_bytes(made)).run(feed)["y"], 2 * feed["x"])


def test_typed_positions_stay(tmp_path: Path) -> None:
    """The scales of a Resize are float32 by definition, and a Cast of indices makes halves."""
    b = Builder()
    b.node("Cast", ["i"], "f", to=1)
    b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    b.node("Resize", ["f", "", "scales"], "y", mode="nearest")
    model = b.model([("i", "int32", (1, 2, 3, 3))], [("y", "float32", (1, 2, 6, 6))])
    feed = {"i": np.arange(18, dtype=np.int32).reshape(1, 2, 3, 3)}
    made = in_half(model, tmp_path, feeds=[feed])
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Resize"}
    expected = Session(model.SerializeToString()).run(feed)["y"]
    assert np.array_equal(Session(to_bytes(made)).run(feed)["y"], expected)


def test_replay_takes_what_was_kept(tmp_path: Path) -> None:
    """With its artifact the action gives the same bytes although calibration differs now."""
    model = root_mean_square()
    store = ArtifactStore(tmp_path)
    loud = [{"x": feed["x"] * 3} for feed in random_feeds(model, 4)]
    editor = Editor(opened(model))
    made = PLUGIN.apply(editor, Action.of("float16", "*"), evidence_of(model, store, loud))
    assert isinstance(made, Action)
    quiet = [{"x": feed["x"] * 1e-3} for feed in loud]
    again = Editor(opened(model))
    assert PLUGIN.apply(again, made, evidence_of(model, store, quiet)) == made
    assert to_bytes(again.model) == to_bytes(editor.model)


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 1e6), st.integers(1, 4000))
def test_found_by_magnitude(largest: float, count: int) -> None:
    """A value overflows beyond 65504, and its mean where the sum does."""
    b = Builder()
    b.node("ReduceMean", ["x"], "m", axes=[1])
    model = b.model([("x", "float32", (2, count))], [("m", "float32", (2, 1))])
    graph = opened(model)
    ranges = {"x": Range(low=-largest, high=0.0), "m": Range(low=-largest, high=0.0)}
    shapes = {"x": (2, count), "m": (2, 1)}
    problems = {one.name: one.problem for one in found_in(graph, ranges, shapes)}
    if largest > 65504:
        assert problems == {"x": "overflow", "m": "overflow"}
    elif 0 < largest < 2**-14:
        assert set(problems.values()) == {"vanishes"}
    else:
        assert ("m" in problems) == (largest * count > 65504)
        assert "x" not in problems


def test_sentences_name_the_worst_first() -> None:
    """Overflows before sums before what vanishes, and how many more there are."""
    found = [
        OutOfHalf(name="e", operator="constant", problem="vanishes", largest=1e-12),
        OutOfHalf(name="m", operator="ReduceMean", problem="sum", largest=1e5),
        *(OutOfHalf(name=n, operator="Mul", problem="overflow", largest=9e4) for n in "pqr"),
    ]
    lines = sentences(found, "jetson-nano")
    assert lines[0] == "in float16 on jetson-nano, Mul 'p' reaches 9e+04, beyond float16's 65504"
    assert lines[-1] == "in float16 on jetson-nano, 2 more values do not fit"


@settings(max_examples=25, deadline=None)
@given(networks())
def test_random_graphs(tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto) -> None:
    """Random graphs stay valid, run at every level, and stay near float32."""
    folder = tmp_path_factory.mktemp("half")
    before = model.SerializeToString()
    made = in_half(model, folder)
    assert model.SerializeToString() == before
    feeds = random_feeds(model, 2)
    for level in ("off", "all"):
        session = Session(to_bytes(made), RuntimeSettings(optimization=level))
        assert all(np.isfinite(v).all() for v in session.run(feeds[0]).values() if v.dtype == "f4")
    assert sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > 30
