"""Dynamic, embedding and weight-only quantization: what runs, how near, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.core.profile import DeviceProfile, QuantizationTypes
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import (
    at_every_site,
    evidence_of,
    examine_quantize,
    lowered_counts,
    sqnr_db,
)
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.base import Offer, Rejection
from edgeopt.transforms.quantize.weight_only_blocks import packed
from edgeopt.transforms.stages import transform_of

Net = Callable[[], onnx.ModelProto]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def _attention() -> onnx.ModelProto:
    """Three products of one value, one bias, and a product with no constant."""
    b = Builder()
    for role in "qkv":
        b.node("MatMul", ["x", b.weight(f"{role}.w", 16, 16, scale=0.25)], role)
    b.node("Add", ["q", b.weight("q.b", 16)], "qb")
    b.node("Transpose", ["k"], "kt", perm=[0, 2, 1])
    b.node("MatMul", ["qb", "kt"], "scores")
    b.node("Softmax", ["scores"], "p", axis=-1)
    b.node("MatMul", ["p", "v"], "y")
    return b.model([("x", "float32", ("N", 5, 16))], [("y", "float32", ("N", 5, 16))])


def _gemms() -> onnx.ModelProto:
    """Gemms with every kind of factor, bias and layout."""
    b = Builder()
    b.node("Gemm", ["x", b.weight("a.w", 8, 12), b.weight("a.b", 8)], "a", transB=1, alpha=0.5)
    b.node("Gemm", ["a", b.weight("b.w", 8, 8), b.weight("b.b", 1, 8)], "b", beta=2.0)
    b.node("Gemm", ["b", b.weight("c.w", 8, 8)], "c")
    b.node("Gemm", ["c", b.weight("d.w", 4, 8), "a4"], "y", transB=1, beta=-1.0)
    inputs = [("x", "float32", ("N", 12)), ("a4", "float32", (4,))]
    return b.model(inputs, [("y", "float32", ("N", 4))])


def _tied() -> onnx.ModelProto:
    """One matrix that two products read, in both layouts."""
    b = Builder()
    b.weight("w", 12, 12)
    b.node("MatMul", ["x", "w"], "m")
    b.node("Gemm", ["m", "w"], "g", transB=1)
    b.node("MatMul", ["g", "w"], "y")
    return b.model([("x", "float32", ("N", 12))], [("y", "float32", ("N", 12))])


def _behind_transpose() -> onnx.ModelProto:
    """A table whose transpose is the last matrix, as language models tie them."""
    b = Builder()
    b.weight("w", 20, 12, scale=0.3)
    b.node("Gather", ["w", "i"], "e")
    b.node("Transpose", ["w"], "t", perm=[1, 0])
    b.node("MatMul", ["e", "t"], "m")
    b.node("Gemm", ["m", "t"], "y", transB=1)
    return b.model([("i", "int64", (6,))], [("y", "float32", (6, 12))])


@pytest.mark.parametrize(
    "net",
    [graphs.gemm_chain, _attention, _gemms, _tied, graphs.conv_chain, _behind_transpose],
)
def test_products(net: Net, store: ArtifactStore) -> None:
    """Every product alone runs in integers and stays near; the order does not matter."""
    assert examine_quantize("dynamic_matmul", net(), store, least_db=25)


def test_products_of_every_rank(store: ArtifactStore) -> None:
    """A constant matrix multiplies activations of one to four axes."""
    for axes in ((), (3,), (2, 3), (2, 3, 2)):
        b = Builder()
        b.node("MatMul", ["x", b.weight("w", 16, 8)], "y")
        inputs, outputs = ("x", "float32", (*axes, 16)), ("y", "float32", (*axes, 8))
        assert examine_quantize("dynamic_matmul", b.model([inputs], [outputs]), store, least_db=25)


def test_one_value_is_quantized_once_for_all_its_products(store: ArtifactStore) -> None:
    """The runtime fuses a product, its scales and its bias; the codes of a value are shared."""
    model = _attention()
    made = _made("dynamic_matmul", model, store)
    kinds = [node.op_type for node in made.graph]
    assert kinds.count("DynamicQuantizeLinear") == 1
    counts = lowered_counts(made, graphs.random_feeds(model)[0])
    assert counts["MatMulIntegerToFloat"] == 3
    assert counts.get("Add", 0) == 0


def test_an_activation_of_zeros_or_one_value(store: ArtifactStore) -> None:
    """A sample without a range of its own gives the bias, and nothing that is not finite."""
    model = graphs.gemm_chain()
    made = Session(to_bytes(_made("dynamic_matmul", model, store)))
    plain = Session(model.SerializeToString())
    for level in (0.0, 1.0, -2.0):
        feed = {"x": np.full((2, 6), level, np.float32)}
        found, wanted = made.run(feed)["logits"], plain.run(feed)["logits"]
        assert np.abs(found - wanted).max() < 0.05 * max(1.0, np.abs(wanted).max())


def test_shared_weights_are_coded_once(store: ArtifactStore) -> None:
    """Two products of one layout share codes, and the float weight is gone after the last."""
    made = _made("dynamic_matmul", _tied(), store)
    names = set(made.graph.initializers)
    assert "w" not in names
    assert sum(name.startswith("w__") and name.endswith("int8x8") for name in names) == 1


@pytest.mark.parametrize(
    "types",
    [
        QuantizationTypes(),
        QuantizationTypes(per_channel=False),
        QuantizationTypes(reduce_range=True),
        QuantizationTypes(weight="uint8"),
    ],
    ids=lambda types: f"{types.weight}-{types.per_channel}-{types.reduce_range}",
)
@pytest.mark.parametrize("name", ["dynamic_matmul", "dynamic_lstm"])
def test_types_are_those_of_the_profile(
    name: str, types: QuantizationTypes, store: ArtifactStore
) -> None:
    """Every weight type that a profile may name runs and stays near the float model."""
    profile = DeviceProfile(name="t", title="t", architecture="x86_64", quantization=types)
    net = graphs.gemm_chain() if name == "dynamic_matmul" else graphs.lstm()
    offered = Offer(profile=profile)
    assert examine_quantize(name, net, store, offered=offered, least_db=20)


def test_nothing_for_devices_without_the_types() -> None:
    """No fast integers, symmetric codes only, or no foreign operators: nothing is offered."""
    none = DeviceProfile(name="s", title="s", architecture="armv7")
    engine = DeviceProfile(
        name="e", title="e", architecture="aarch64", quantization=QuantizationTypes(symmetric=True)
    )
    for name, net in (("dynamic_matmul", graphs.gemm_chain()), ("dynamic_lstm", graphs.lstm())):
        for profile in (none, engine):
            assert transform_of(name)[1].sites(opened(net), Offer(profile=profile)) == ()
    assert transform_of("dynamic_lstm")[1].sites(opened(graphs.lstm()), offer(contrib=False)) == ()
    long = opened(_long())
    assert transform_of("weight_only_blocks")[1].sites(long, offer(contrib=False)) == ()


def _recurrent(
    operator: str = "LSTM",
    *,
    directions: int = 1,
    lengths: bool = False,
    state: bool = False,
    peephole: bool = False,
    hidden: int = 8,
    **attributes: object,
) -> onnx.ModelProto:
    """A recurrent node over `x` [time, N, 12], outputs `y` and `last`."""
    b = Builder()
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * hidden
    names = [
        "x",
        b.weight("w", directions, gates, 12, scale=0.3),
        b.weight("r", directions, gates, hidden, scale=0.3),
        b.weight("b", directions, 2 * gates, scale=0.1),
        "n" if lengths else "",
        *(["h"] if state else [""]),
    ]
    if operator == "LSTM":
        names.append("c" if state else "")
    if peephole:
        names.append(b.weight("p", directions, 3 * hidden))
    if directions == 2:
        attributes["direction"] = "bidirectional"
    node = helper.make_node(
        operator, names, ["y", "last"], name="rnn", hidden_size=hidden, **attributes
    )
    b.nodes.append(node)
    shape = (directions, 2, hidden)
    inputs = [("x", "float32", (4, 2, 12))]
    inputs += [("n", "int32", (2,))] if lengths else []
    inputs += [("h", "float32", shape)] if state else []
    inputs += [("c", "float32", shape)] if state and operator == "LSTM" else []
    outputs = [("y", "float32", (4, directions, 2, hidden)), ("last", "float32", shape)]
    return b.model(inputs, outputs)


@pytest.mark.parametrize(
    "net",
    [
        graphs.lstm,
        _recurrent,
        lambda: _recurrent(directions=2),
        lambda: _recurrent(direction="reverse", state=True),
        lambda: _recurrent(directions=2, state=True, lengths=True),
    ],
    ids=["state", "plain", "both", "reverse", "lengths"],
)
def test_lstm(net: Net, store: ArtifactStore) -> None:
    """All directions, states and lengths are kept in the integer LSTM."""
    assert len(examine_quantize("dynamic_lstm", net(), store, least_db=25)) == 1


def _in_body() -> onnx.ModelProto:
    """An If whose branches are an LSTM with its own weights, or a slice of the input."""
    inner = _recurrent().graph
    del inner.input[:]
    del inner.output[1:]
    other = Builder()
    other.constant("start", np.array([0], np.int64))
    other.constant("end", np.array([8], np.int64))
    other.constant("axis", np.array([3], np.int64))
    other.constant("one", np.array([1], np.int64))
    other.node("Unsqueeze", ["x", "one"], "wide")
    other.node("Slice", ["wide", "start", "end", "axis"], "cut")
    cut = helper.make_tensor_value_info("cut", 1, (4, 1, 2, 8))
    otherwise = helper.make_graph(other.nodes, "else", [], [cut], other.initializers)
    b = Builder()
    b.constant("zero", np.zeros((), np.float32))
    b.node("ReduceMean", ["x"], "mean", keepdims=0)
    b.node("Greater", ["mean", "zero"], "positive")
    b.node("If", ["positive"], "chosen", then_branch=inner, else_branch=otherwise)
    b.node("Neg", ["chosen"], "z")
    return b.model([("x", "float32", (4, 2, 12))], [("z", "float32", (4, 1, 2, 8))])


def test_lstm_in_the_body_of_an_if(store: ArtifactStore) -> None:
    """A body's LSTM becomes an integer one, and its float weights leave the body."""
    model = _in_body()
    graph = opened(model)
    actions = transform_of("dynamic_lstm")[1].sites(graph, offer())
    assert [action.site for action in actions] == ["y"]
    made = at_every_site("dynamic_lstm", graph, evidence_of(model, store), actions)
    assert len(to_bytes(made)) < len(model.SerializeToString())
    assert sqnr_db(model.SerializeToString(), to_bytes(made), _feeds(model)) > 25
    positive = {"x": np.full((4, 2, 12), 0.5, np.float32)}
    assert lowered_counts(made, positive)["DynamicQuantizeLSTM"] == 1


def test_body_edits_are_undone() -> None:
    """Undo puts a body's nodes, outputs and constants back, byte for byte."""
    graph = opened(_in_body())
    before = to_bytes(graph)
    editor = Editor(graph)
    plugin = transform_of("dynamic_lstm")[1]
    (action,) = plugin.sites(graph, offer())
    assert isinstance(plugin.apply(editor, action, NoEvidence()), Action)
    assert to_bytes(graph) != before
    editor.undo()
    assert to_bytes(graph) == before


def _lookup(*, others: bool = False, axis: int = 0, rows: int = 200) -> onnx.ModelProto:
    """Two Gathers of one table, and a sum; with `others` a product reads it too."""
    b = Builder()
    b.weight("table", rows, 32, scale=1.0)
    b.node("Gather", ["table", "i"], "one", axis=axis)
    b.node("Gather", ["table", "k"], "two", axis=axis)
    b.node("Add", ["one", "two"], "sum")
    if others:
        b.node("Transpose", ["table"], "turned")
        b.node("MatMul", ["sum", "turned"], "y")
    else:
        b.node("Neg", ["sum"], "y")
    ids = [("i", "int64", ("N", 3)), ("k", "int64", ("N", 3))]
    return b.model(ids, [("y", "float32", None)])


def test_embedding(store: ArtifactStore) -> None:
    """One table of codes serves both look-ups, with exact indices, negative ones included."""
    model = _lookup()
    (applied,) = examine_quantize("embedding_int8", model, store, least_db=35, integer=False)
    assert "table" not in applied.graph.graph.initializers
    assert len(to_bytes(applied.graph)) < 0.4 * len(model.SerializeToString())
    feed = {"i": np.array([[0, -1, 199]]), "k": np.array([[-200, 3, 7]])}
    assert sqnr_db(model.SerializeToString(), to_bytes(applied.graph), [feed]) > 35


def test_embedding_as_output(store: ArtifactStore) -> None:
    """A look-up that is itself the model's output keeps its name and shape."""
    b = Builder()
    b.node("Gather", [b.weight("table", 200, 32, scale=1.0), "i"], "y")
    model = b.model([("i", "int64", ("N",))], [("y", "float32", ("N", 32))])
    assert examine_quantize("embedding_int8", model, store, least_db=35, integer=False)


def _long() -> onnx.ModelProto:
    """Products over 160 elements, which is no multiple of a block, and a Gemm with factors."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("a.w", 160, 128, scale=0.1)], "a")
    names = ["a", b.weight("b.w", 8, 128, scale=0.1), b.weight("b.b", 8)]
    b.node("Gemm", names, "y", transB=1, alpha=0.5, beta=2.0)
    return b.model([("x", "float32", (3, 160))], [("y", "float32", (3, 8))])


def test_blocks(store: ArtifactStore) -> None:
    """Eight bits are nearer than four, and four make a smaller file."""
    model = _long()
    applied = examine_quantize("weight_only_blocks", model, store, least_db=18, integer=False)
    assert [one.action.get("bits") for one in applied] == [8, 4, 8, 4]
    eight, four = (to_bytes(one.graph) for one in applied[:2])
    assert len(four) < len(eight)
    near = [sqnr_db(model.SerializeToString(), made, _feeds(model)) for made in (eight, four)]
    assert near[0] > near[1] + 10


@given(
    rows=st.integers(1, 5),
    given=st.integers(1, 70),
    bits=st.sampled_from([4, 8]),
    seed=st.integers(0, 99),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_blocks_are_within_half_a_step(rows: int, given: int, bits: int, seed: int) -> None:
    """Read back, every weight is at most a step of its block away (the far end is clipped)."""
    weight = np.random.default_rng(seed).normal(size=(rows, given)).astype(np.float32)
    codes, scales = packed(weight, bits, 16)
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1)
    parts = codes.reshape(rows, -1, 16).astype(np.float32) - (1 << (bits - 1))
    steps = scales.reshape(rows, -1, 1)
    found = (parts * steps).reshape(rows, -1)[:, :given]
    far = np.abs(np.broadcast_to(steps, parts.shape)).reshape(rows, -1)[:, :given]
    assert np.all(np.abs(found - weight) <= far * 1.001)


@pytest.mark.parametrize("operator", ["GRU", "RNN"])
@pytest.mark.parametrize("directions", [1, 2])
def test_stored_as_integers(operator: str, directions: int, store: ArtifactStore) -> None:
    """What has no integer kernel keeps its float arithmetic and a smaller file."""
    model = _recurrent(operator, directions=directions, hidden=16)
    assert examine_quantize("weight_only_int8", model, store, least_db=25, integer=False)


def test_transposed_convolution_is_stored_as_integers(store: ArtifactStore) -> None:
    """One scale an output channel, which is the second axis of its weight."""
    b = Builder()
    b.node("ConvTranspose", ["x", b.weight("w", 8, 4, 3, 3), b.weight("b", 4)], "y", group=2)
    model = b.model([("x", "float32", (1, 8, 5, 5))], [("y", "float32", (1, 8, 7, 7))])
    model.graph.node[0].input.pop()
    (applied,) = examine_quantize("weight_only_int8", model, store, least_db=30, integer=False)
    assert applied.graph.graph.initializers["w__int8x8_only_scale"].shape == (4,)


def test_an_lstm_is_stored_as_integers_only_without_contrib(store: ArtifactStore) -> None:
    """With operators of com.microsoft there is a better way."""
    plugin, graph = transform_of("weight_only_int8")[1], opened(_recurrent())
    assert plugin.sites(graph, offer()) == ()
    (action,) = plugin.sites(graph, offer(contrib=False))
    made = at_every_site("weight_only_int8", graph, evidence_of(_recurrent(), store), [action])
    assert {node.domain for node in made.graph} == {""}


def _refusal(name: str, model: onnx.ModelProto, site: str, **parameters: object) -> str:
    graph = opened(model)
    before = to_bytes(graph)
    editor = Editor(graph)
    kind = {"weight": "int8", "per_channel": True, "reduce_range": False}
    action = Action.of(name, site, **(kind | parameters))  # type: ignore[arg-type]
    plugin = transform_of(name)[1]
    assert action.site not in {one.site for one in plugin.sites(graph, offer())}
    made = plugin.apply(editor, action, NoEvidence())
    assert isinstance(made, Rejection)
    editor.undo()
    assert to_bytes(graph) == before
    return made.reason


def test_reasons() -> None:
    """What does not fit is not listed, and refused with its reason without a trace."""
    assert "peepholes" in _refusal("dynamic_lstm", _recurrent(peephole=True, state=True), "y")
    assert "batch comes first" in _refusal("dynamic_lstm", _recurrent(layout=1), "y")
    assert "no LSTM" in _refusal("dynamic_lstm", _recurrent("GRU"), "y")
    assert "no node computes" in _refusal("dynamic_lstm", _recurrent(), "z")
    assert "no weighted node" in _refusal("dynamic_matmul", graphs.gemm_chain(), "relu1")
    assert "otherwise than by rows" in _refusal("embedding_int8", _lookup(others=True), "one")
    assert "otherwise than by rows" in _refusal("embedding_int8", _lookup(axis=1), "one")
    assert "no large table" in _refusal("embedding_int8", _lookup(rows=4), "one")
    assert "integer kernel" in _refusal("weight_only_int8", graphs.gemm_chain(), "relu1")
    short = {"bits": 4, "block": 32, "accuracy_level": 4}
    assert "shorter" in _refusal("weight_only_blocks", graphs.gemm_chain(), "fc1", **short)


def test_not_finite_weights_are_refused() -> None:
    """A weight with a NaN has no scale."""
    b = Builder()
    b.node("MatMul", ["x", b.constant("w", np.full((8, 4), np.nan, np.float32))], "y")
    model = b.model([("x", "float32", (2, 8))], [("y", "float32", (2, 4))])
    editor = Editor(opened(model))
    plugin = transform_of("dynamic_matmul")[1]
    made = plugin.apply(editor, plugin.sites(editor.model, offer())[0], NoEvidence())
    assert isinstance(made, Rejection)
    assert "finite" in made.reason


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_static_and_dynamic_groups_mix_in_any_order(seed: int, tmp_path_factory: object) -> None:
    """Neighbouring groups of different schemes give one graph in every order, near the float."""
    store = ArtifactStore(Path(tmp_path_factory.mktemp("mix")))  # type: ignore[attr-defined]
    generator = np.random.default_rng(seed)
    model = graphs.gemm_chain((12, 16, 16, 16, 8), seed=seed % 7)
    graph = opened(model)
    offered = {
        name: {one.site: one for one in transform_of(name)[1].sites(graph, offer())}
        for name in ("static_qdq", "dynamic_matmul")
    }
    chosen = [
        offered[str(generator.choice(list(offered)))][site]
        for site in offered["static_qdq"]
        if generator.random() < 0.8
    ]
    digests: set[tuple[str, str]] = set()
    feeds = _feeds(model)
    for order in (chosen, [chosen[i] for i in generator.permutation(len(chosen))]):
        made = _mixed(graph, order, evidence_of(model, store))
        assert sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > 12
        digests.add((structure_digest(made), weights_digest(made)))
    assert len(digests) == 1


def _mixed(graph, actions, evidence):  # type: ignore[no-untyped-def]
    evidence.remember_float(graph)
    editor = Editor(graph.clone())
    for action in actions:
        made = transform_of(action.transform)[1].apply(editor, action, evidence)
        assert isinstance(made, Action), made
    return editor.model


def test_a_group_is_quantized_in_one_way_only(store: ArtifactStore) -> None:
    """Static after dynamic at one site is refused, and the other way round."""
    model = graphs.gemm_chain()
    for first, second in (("static_qdq", "dynamic_matmul"), ("dynamic_matmul", "static_qdq")):
        graph = opened(model)
        evidence = evidence_of(model, store)
        evidence.remember_float(graph)
        editor = Editor(graph.clone())
        one, other = (transform_of(name)[1] for name in (first, second))
        at_first, then = one.sites(graph, offer())[0], other.sites(graph, offer())[0]
        assert isinstance(one.apply(editor, at_first, evidence), Action)
        assert then not in other.sites(editor.model, offer())
        refused = other.apply(editor, then, evidence)
        assert isinstance(refused, Rejection)
        assert "already" in refused.reason or "plain float32" in refused.reason


def test_a_model_that_came_quantized_is_improved_or_left(store: ArtifactStore) -> None:
    """What is still float becomes dynamic; static pairs beside foreign ones are refused."""
    graph = opened(graphs.gemm_chain())
    editor = Editor(graph.clone())
    plugin, static = transform_of("dynamic_matmul")[1], transform_of("static_qdq")[1]
    first = plugin.sites(graph, offer())[0]
    assert isinstance(plugin.apply(editor, first, NoEvidence()), Action)
    foreign = opened(onnx.load_from_string(to_bytes(editor.model)))
    left = plugin.sites(foreign, offer())
    assert [action.site for action in left] == ["fc2", "logits"]
    assert static.sites(foreign, offer()) == ()
    evidence = evidence_of(graphs.gemm_chain(), store)
    made = at_every_site("dynamic_matmul", foreign, evidence, left[:1])
    other = Action.of("static_qdq", "logits", activation="uint8", weight="int8", per_channel=True)
    refused = static.apply(Editor(made), other, evidence)
    assert isinstance(refused, Rejection)
    assert "of its own" in refused.reason


def _made(name: str, model: onnx.ModelProto, store: ArtifactStore):  # type: ignore[no-untyped-def]
    graph = opened(model)
    actions = transform_of(name)[1].sites(graph, offer())
    return at_every_site(name, graph, evidence_of(model, store), actions)


def _feeds(model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    return [dict(feed) for feed in graphs.random_feeds(model, 4, seed=5)]
