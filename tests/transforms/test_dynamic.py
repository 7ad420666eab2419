"""Dynamic products: what runs, how near, what is refused, and how schemes mix."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from edgeopt.transforms.stages import transform_of
from tests.transforms.small_nets import at_all_sites, feeds_of, long_product, lookup, recurrent

Net = Callable[[], onnx.ModelProto]


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
    made = at_all_sites("dynamic_matmul", model, store)
    kinds = [node.op_type for node in made.graph]
    assert kinds.count("DynamicQuantizeLinear") == 1
    counts = lowered_counts(made, graphs.random_feeds(model)[0])
    assert counts["MatMulIntegerToFloat"] == 3
    assert counts.get("Add", 0) == 0


def test_an_activation_of_zeros_or_one_value(store: ArtifactStore) -> None:
    """A sample without a range of its own gives the bias, and nothing that is not finite."""
    model = graphs.gemm_chain()
    made = Session(to_bytes(at_all_sites("dynamic_matmul", model, store)))
    plain = Session(model.SerializeToString())
    for level in (0.0, 1.0, -2.0):
        feed = {"x": np.full((2, 6), level, np.float32)}
        found, wanted = made.run(feed)["logits"], plain.run(feed)["logits"]
        assert np.abs(found - wanted).max() < 0.05 * max(1.0, np.abs(wanted).max())


def test_shared_weights_are_coded_once(store: ArtifactStore) -> None:
    """Two products of one layout share codes, and the float weight is gone after the last."""
    made = at_all_sites("dynamic_matmul", _tied(), store)
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
    long = opened(long_product())
    assert transform_of("weight_only_blocks")[1].sites(long, offer(contrib=False)) == ()


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
    assert "peepholes" in _refusal("dynamic_lstm", recurrent(peephole=True, state=True), "y")
    assert "batch comes first" in _refusal("dynamic_lstm", recurrent(layout=1), "y")
    assert "no LSTM" in _refusal("dynamic_lstm", recurrent("GRU"), "y")
    assert "no node computes" in _refusal("dynamic_lstm", recurrent(), "z")
    assert "no weighted node" in _refusal("dynamic_matmul", graphs.gemm_chain(), "relu1")
    assert "otherwise than by rows" in _refusal("embedding_int8", lookup(others=True), "one")
    assert "otherwise than by rows" in _refusal("embedding_int8", lookup(axis=1), "one")
    assert "no large table" in _refusal("embedding_int8", lookup(rows=4), "one")
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
    feeds = feeds_of(model)
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
