"""Symmetric int8 for TensorRT: where pairs stand, and uint8 codes that become int8 exactly."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.targets.profiles import load_profile
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.quantize_exam import at_every_site, evidence_of, sqnr_db
from edgeopt.testing.random_graphs import networks
from edgeopt.testing.transform_exam import NoEvidence, examine, offer, opened
from edgeopt.transforms.base import Offer, Rejection
from edgeopt.transforms.quantize.symmetric_qdq import PLUGIN as SYMMETRIC
from edgeopt.transforms.quantize.transcode_int8 import PLUGIN as TRANSCODE
from edgeopt.transforms.quantize.transcode_int8 import symmetric_form
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from edgeopt.transforms.stages import transform_of

TENSORRT = Offer(profile=load_profile("jetson-orin-nano").on("TensorrtExecutionProvider"))


def everywhere(model: onnx.ModelProto, folder: Path) -> ir.Model:
    """All groups in the form that TensorRT wants."""
    graph = opened(model)
    evidence = evidence_of(model, ArtifactStore(folder))
    return at_every_site("symmetric_qdq", graph, evidence, SYMMETRIC.sites(graph, TENSORRT))


@pytest.mark.parametrize("name", ["conv_chain", "residual", "mobilenet_block", "gemm_chain"])
def test_pairs_as_tensorrt_wants_them(name: str, tmp_path: Path) -> None:
    """int8, zero points 0, a pair before each weighted layer and none behind, float biases."""
    model = getattr(graphs, name)()
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    assert examine("symmetric_qdq", model, evidence=evidence, offered=TENSORRT)
    made = everywhere(model, tmp_path)
    check(made)
    weighted = [node for node in made.graph if node.op_type in {"Conv", "Gemm", "MatMul"}]
    assert weighted
    for node in weighted:
        makers = [None if value is None else value.producer() for value in node.inputs]
        kinds = [None if one is None else one.op_type for one in makers]
        assert kinds[:2] == ["DequantizeLinear"] * 2
        assert all(kind is None for kind in kinds[2:])
        assert all(value.dtype is ir.DataType.FLOAT for value in node.inputs[2:] if value)
    for node in made.graph:
        if node.op_type in {"QuantizeLinear", "DequantizeLinear"}:
            zero = array_of(node.inputs[2])
            assert zero is not None
            assert (zero.dtype, zero.any()) == (np.int8, np.False_)
        if node.op_type == "QuantizeLinear":
            readers = {
                user.op_type
                for dequantize, _ in node.outputs[0].uses()
                for user, _ in dequantize.outputs[0].uses()
            }
            assert readers <= {"Conv", "Gemm", "MatMul"}
    assert sqnr_db(model.SerializeToString(), to_bytes(made), random_feeds(model, 4, seed=2)) > 20


def test_order_does_not_matter(tmp_path: Path) -> None:
    """Groups in any order give the same bytes; afterwards none is left."""
    model = graphs.residual()
    graph = opened(model)
    actions = SYMMETRIC.sites(graph, TENSORRT)
    store = ArtifactStore(tmp_path)
    both = [
        at_every_site("symmetric_qdq", graph, evidence_of(model, store), order)
        for order in (actions, actions[::-1])
    ]
    first, second = (Session(to_bytes(one)) for one in both)
    for feed in random_feeds(model, 2):
        one, other = first.run(feed), second.run(feed)
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert not SYMMETRIC.sites(both[0], TENSORRT)


def test_profile_chooses_the_form() -> None:
    """TensorRT on an Orin gets this form and no other; its CPU and x86 get uint8 by int8."""
    graph = opened(graphs.conv_chain())
    orin = load_profile("jetson-orin-nano")

    def forms(offered: Offer) -> set[str]:
        both = ("static_qdq", "symmetric_qdq")
        return {name for name in both if transform_of(name)[1].sites(graph, offered)}

    assert forms(TENSORRT) == {"symmetric_qdq"}
    assert forms(Offer(profile=orin.on("CPUExecutionProvider"))) == {"static_qdq"}
    assert forms(Offer(profile=orin.on("CUDAExecutionProvider"))) == set()
    assert forms(Offer(profile=load_profile("x86-vnni"))) == {"static_qdq"}


def space_of(model: onnx.ModelProto, folder: Path, opset: int) -> GraphSpace:
    """The space of a model on TensorRT."""
    workshop = Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder)),
        opset_ceiling=opset,
        feed=random_feeds(model)[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, TENSORRT)


@pytest.mark.parametrize("opset", [17, 19, 21])
def test_search_reaches_it(opset: int, tmp_path: Path) -> None:
    """Everything in int8 is a standard candidate, and so is that with the rest in float16.

    From opset 19 on scales are float16 and nothing stands between a DequantizeLinear and its
    layer; below they cannot be, and casts do.
    """
    model = graphs.residual()
    space = space_of(model, tmp_path, opset)
    named = dict(space.standard())
    kinds = {name: {a.transform for a in one.recipe.actions} for name, one in named.items()}
    assert "symmetric_qdq" in kinds["int8_everything"]
    assert {"symmetric_qdq", "float16"} <= kinds["int8_everything+float16"]
    assert {"float16"} in kinds.values(), "whichever guess comes to it first gives the name"
    made = space.workshop.build(named["int8_everything+float16"].recipe).graph
    check(made)
    layers = [node for node in made.graph if node.op_type == "Conv"]
    assert {node.outputs[0].dtype for node in layers} == {ir.DataType.FLOAT16}
    # The stem, which reads few channels, is left out of the integers.
    behind = [node for node in layers if node.outputs[0].name != "stem"]
    makers = [value.producer() for node in behind for value in node.inputs[:2] if value]
    before = {"" if one is None else one.op_type for one in makers}
    assert before == ({"DequantizeLinear"} if opset >= 19 else {"Cast"})
    feeds = random_feeds(model, 4, seed=2)
    assert sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > 20
    plain = [Session(model.SerializeToString()).run(feed)["y"] for feed in feeds]
    for level in ("off", "basic", "extended", "all"):
        session = Session(to_bytes(made), RuntimeSettings(optimization=level))
        noise = [y - session.run(feed)["y"] for y, feed in zip(plain, feeds, strict=True)]
        assert np.square(noise).sum() < 0.01 * np.square(plain).sum()


def test_biases_survive_the_runtime(tmp_path: Path) -> None:
    """Biases stand behind integer layers in float16, out of reach of the runtime's int32 codes."""
    b = Builder()
    sign = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), (4, 4, 1, 1))
    quiet = np.asarray(0.0085 * sign, np.float32)
    b.node("Mul", ["x", b.constant("small", np.array(0.005, np.float32))], "s")
    for index, source in enumerate(("s", "r0")):
        bias = b.constant(f"b{index}", np.full(4, 0.2, np.float32))
        names = [source, b.constant(f"w{index}", quiet), bias]
        b.node("Conv", names, f"c{index}", kernel_shape=[1, 1])
        b.node("Relu", [f"c{index}"], f"r{index}")
    shape = (1, 4, 5, 5)
    model = b.model([("x", "float32", shape)], [("r1", "float32", shape)])
    space = space_of(model, tmp_path, 21)
    actions = [a for a in space.legal(space.empty()) if a.transform == "symmetric_qdq"]
    recipe = space.workshop.recipe([*actions, Action.of("float16", "*")])
    made = space.workshop.build(recipe).graph
    layers = [node for node in made.graph if node.op_type == "Conv"]
    assert [len(node.inputs) for node in layers] == [2, 2]
    assert [next(iter(n.outputs[0].uses()))[0].op_type for n in layers] == ["Add", "Add"]
    for level in ("off", "all"):
        session = Session(to_bytes(made), RuntimeSettings(optimization=level))
        for feed in random_feeds(model, 2):
            wanted = Session(model.SerializeToString()).run(feed)["r1"]
            assert np.abs(session.run(feed)["r1"] - wanted).max() < 0.02


def near_dead(kind: str, factor: float) -> onnx.ModelProto:
    """A channel with almost no weights under a large bias, before a second layer."""
    b = Builder()
    generator = np.random.default_rng(2)
    spread = (8, 8, 3, 3) if kind == "Conv" else (8, 8)
    weight = generator.normal(size=spread).astype(np.float32)
    weight[(slice(None), 3) if kind == "MatMul" else 3] *= np.float32(factor)
    bias = b.constant("b", (30 + generator.normal(size=8)).astype(np.float32))
    w = b.constant("w", weight)
    if kind == "MatMul":
        b.node("Add", [b.node("MatMul", ["x", w], "m"), bias], "c")
    elif kind == "Gemm":
        b.node("Gemm", ["x", w, bias], "c", transB=1)
    else:
        b.node("Conv", ["x", w, bias], "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    b.node("Relu", ["c"], "r")
    if kind == "Conv":
        b.conv("r", "y", (8, 8))
        shape = (2, 8, 6, 6)
    else:
        b.node("MatMul", ["r", b.weight("v", 8, 8)], "y")
        shape = (6, 8)
    return b.model([("x", "float32", shape)], [("y", "float32", shape)])


@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
@pytest.mark.parametrize("factor", [1e-4, 1e-6, 1e-9])
def test_near_dead_channels(kind: str, factor: float, tmp_path: Path) -> None:
    """The int32 codes that the runtime gives a bias fit, however small the weights beside it."""
    model = near_dead(kind, factor)
    made = everywhere(model, tmp_path)
    check(made)
    for layer in made.graph:
        if layer.op_type not in {"Conv", "Gemm", "MatMul"}:
            continue
        scales = [
            array_of(source.inputs[1])
            for value in layer.inputs[:2]
            if value is not None and (source := value.producer()) is not None
        ]
        held = array_of(layer.inputs[2]) if len(layer.inputs) > 2 else None
        assert len(scales) == 2
        if held is not None and scales[0] is not None and scales[1] is not None:
            assert (np.abs(held) / (scales[0] * scales[1])).max() < 1.01 * 2**30
    feeds = random_feeds(model, 2, seed=2)
    plain = [Session(model.SerializeToString()).run(feed)["y"] for feed in feeds]
    for level in ("off", "basic", "extended", "all"):
        session = Session(to_bytes(made), RuntimeSettings(optimization=level))
        noise = [y - session.run(feed)["y"] for y, feed in zip(plain, feeds, strict=True)]
        assert np.square(noise).sum() < 0.002 * np.square(plain).sum()


@pytest.mark.parametrize("first", ["MatMul", "Gemm"])
def test_tied_weights(first: str, tmp_path: Path) -> None:
    """One weight read along both axes has codes for each; read twice along one, only once."""
    b = Builder()
    w, v = b.weight("w", 8, 6), b.weight("v", 8, 8)
    b.node(first, ["x", w], "a")
    b.node("Relu", ["a"], "r")
    b.node("Gemm", ["r", w], "g", transB=1)
    b.node("MatMul", [b.node("Relu", [b.node("MatMul", ["g", v], "p")], "q"), v], "y")
    model = b.model([("x", "float32", (5, 8))], [("y", "float32", (5, 8))])
    made = everywhere(model, tmp_path)
    check(made)
    codes = [
        node.inputs[0].name
        for node in made.graph
        if node.op_type == "DequantizeLinear"
        and node.inputs[0] is not None
        and node.inputs[0].is_initializer()
    ]
    assert len(codes) == 4
    assert len(set(codes)) == 3
    assert sqnr_db(model.SerializeToString(), to_bytes(made), random_feeds(model, 2)) > 15


def test_models_with_quantizers_are_left(tmp_path: Path) -> None:
    """A model that came quantized is refused with the reason."""
    model = onnx.ModelProto.FromString(to_bytes(everywhere(graphs.conv_chain(), tmp_path)))
    graph = opened(model)
    assert not SYMMETRIC.sites(graph, TENSORRT)
    action = Action.of("symmetric_qdq", "conv1", per_channel=True)
    made = SYMMETRIC.apply(Editor(graph), action, NoEvidence())
    assert isinstance(made, Rejection)
    assert "came with quantizers" in made.reason


def middle_net(
    weight: npt.NDArray[np.uint8], *, zero: int = 128, scale: float = 0.05
) -> onnx.ModelProto:
    """Codes around a zero point through Transpose and Reshape into a product, and out again."""
    b = Builder()
    b.constant("s", np.array(scale, np.float32))
    b.constant("z", np.array(zero, np.uint8))
    b.node("QuantizeLinear", ["x", "s", "z"], "q")
    b.node("Transpose", ["q"], "t", perm=[1, 0])
    b.node("DequantizeLinear", ["t", "s", "z"], "d")
    b.constant("w", weight)
    width = weight.shape[1]
    b.constant("ws", np.asarray([0.01 + 0.001 * index for index in range(width)], np.float32))
    b.constant("wz", np.asarray([128] * width, np.uint8))
    b.node("DequantizeLinear", ["w", "ws", "wz"], "v", axis=1)
    b.node("MatMul", ["d", "v"], "p")
    b.node("QuantizeLinear", ["p", "s", "z"], "pq")
    b.node("DequantizeLinear", ["pq", "s", "z"], "y")
    depth = weight.shape[0]
    return b.model([("x", "float32", (depth, 3))], [("y", "float32", (3, width))])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_transcoding_is_exact(data: st.DataObject) -> None:
    """Bit for bit as the graph says it, saturation on both sides included.

    The runtime's fused kernels of the two types round a tie each in its own way: one step there.
    """
    depth, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    weight = data.draw(st_numpy.arrays(np.uint8, (depth, width)))
    reals = st.floats(-8, 8, width=32)
    x = data.draw(st_numpy.arrays(np.float32, (depth, 3), elements=reals))
    model = middle_net(weight)
    made = symmetric_form(opened(model))
    kinds = {
        node.op_type: node.inputs[0].dtype
        for node in made.graph
        if node.op_type == "DequantizeLinear" and node.inputs[0]
    }
    assert kinds == {"DequantizeLinear": ir.DataType.INT8}
    for level, steps in (("off", 0), ("all", 1)):
        plain = RuntimeSettings(optimization=level)
        old = Session(model.SerializeToString(), plain).run({"x": x})["y"]
        new = Session(to_bytes(made), plain).run({"x": x})["y"]
        assert np.abs(np.rint(old / 0.05) - np.rint(new / 0.05)).max() <= steps
        assert steps or np.array_equal(old, new)


def test_transcoding_a_named_type() -> None:
    """From opset 21 on a QuantizeLinear may name uint8 itself; then it must not any more."""
    model = middle_net(np.arange(12, dtype=np.uint8).reshape(4, 3) * 20)
    model.opset_import[0].version = 21
    model.ir_version = 10
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            node.attribute.append(helper.make_attribute("output_dtype", onnx.TensorProto.UINT8))
    graph = opened(model)
    before = to_bytes(graph)
    made = symmetric_form(graph)
    check(made)
    assert to_bytes(graph) == before
    types = [v.dtype for n in made.graph if n.op_type == "QuantizeLinear" for v in n.outputs]
    assert types == [ir.DataType.INT8] * 2
    feed = {"x": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}
    plain = RuntimeSettings(optimization="off")
    old = Session(model.SerializeToString(), plain).run(feed)["y"]
    assert np.array_equal(old, Session(to_bytes(made), plain).run(feed)["y"])


def test_transcoding_exam() -> None:
    """Offered where zero points must be 0 only; contract, undo and text as for all."""
    model = middle_net(np.arange(12, dtype=np.uint8).reshape(4, 3) * 20)
    assert len(examine("transcode_int8", model, offered=TENSORRT)) == 1
    assert not TRANSCODE.sites(opened(model), offer())
    assert not TRANSCODE.sites(symmetric_form(opened(model)), TENSORRT)


def test_other_zero_points_have_no_twin() -> None:
    """Activations around 113 stay uint8; the weight beside them, around 128, becomes int8."""
    model = middle_net(np.arange(12, dtype=np.uint8).reshape(4, 3) * 20, zero=113)
    made = symmetric_form(opened(model))
    types = [v.dtype for n in made.graph if n.op_type == "QuantizeLinear" for v in n.outputs]
    assert types == [ir.DataType.UINT8] * 2
    assert made.graph.initializers["w"].dtype is ir.DataType.INT8
    feed = {"x": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)}
    old = Session(model.SerializeToString()).run(feed)["y"]
    assert np.array_equal(old, Session(to_bytes(made)).run(feed)["y"])


def test_codes_that_leave_the_model_stay() -> None:
    """Codes as an output are its contract, and so are all codes that they come from."""
    b = Builder()
    b.constant("s", np.array(0.1, np.float32))
    b.constant("z", np.array(128, np.uint8))
    b.node("QuantizeLinear", ["x", "s", "z"], "q")
    b.node("Identity", ["q"], "codes")
    b.node("DequantizeLinear", ["q", "s", "z"], "y")
    model = b.model(
        [("x", "float32", (2, 2))], [("codes", "uint8", (2, 2)), ("y", "float32", (2, 2))]
    )
    assert not TRANSCODE.sites(opened(model), TENSORRT)
    made = TRANSCODE.apply(Editor(opened(model)), Action.of("transcode_int8", "*"), NoEvidence())
    assert isinstance(made, Rejection)


@settings(max_examples=20, deadline=None)
@given(networks())
def test_random_networks(tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto) -> None:
    """Random graphs stay valid and near float32 with all their groups in this form."""
    before = model.SerializeToString()
    made = everywhere(model, tmp_path_factory.mktemp("symmetric"))
    assert model.SerializeToString() == before
    check(made)
    for level in ("off", "basic", "extended", "all"):
        Session(to_bytes(made), RuntimeSettings(optimization=level)).run(random_feeds(model)[0])
    assert sqnr_db(before, to_bytes(made), random_feeds(model, 2, seed=1)) > 12
