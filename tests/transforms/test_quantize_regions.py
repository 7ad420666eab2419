"""Regions: what stays in integers together, products as Gemm, the stem, one range method."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of
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
from edgeopt.testing.transform_exam import offer, opened
from edgeopt.transforms.base import Offer, Rejection
from edgeopt.transforms.groups import groups, releasable_stem
from edgeopt.transforms.quantize.calibrate import PLUGIN as CALIBRATE
from edgeopt.transforms.quantize.static_qdq import PLUGIN

X = ("x", "float32", (1, 4, 8, 8))


def first_of_each_site(graph: ir.Model, offered: Offer) -> list[Action]:
    found: dict[str, Action] = {}
    for action in PLUGIN.sites(graph, offered):
        found.setdefault(action.site, action)
    return list(found.values())


def all_quantized(model: onnx.ModelProto, store: ArtifactStore) -> tuple[ir.Model, Any]:
    """A model with every group quantized, and what the runtime made of it."""
    graph = opened(model)
    actions = first_of_each_site(graph, offer())
    made = at_every_site("static_qdq", graph, evidence_of(model, store), actions)
    return made, lowered_counts(made, graphs.random_feeds(model)[0])


def is_near(model: onnx.ModelProto, made: ir.Model) -> bool:
    feeds = graphs.random_feeds(model, 4, seed=5)
    return sqnr_db(model.SerializeToString(), to_bytes(made), feeds) > 25.0


def test_what_moves_codes_stays_in_integers(store: ArtifactStore) -> None:
    """Split, Slice and nearest Resize pass codes on with one scale; SiLU has kernels of its own."""
    b = Builder()
    b.conv("x", "c", (4, 8))
    b.node("Mul", ["c", b.node("Sigmoid", ["c"], "s")], "silu")
    b.nodes.append(helper.make_node("Split", ["silu"], ["p", "q"], "split", axis=1, num_outputs=2))
    bounds = [b.constant(n, np.array([v], np.int64)) for n, v in (("b", 0), ("e", 6), ("a", 2))]
    b.node("Slice", [b.conv("p", "d", (4, 4)), *bounds], "cut")
    b.node("Slice", ["q", *bounds], "other")
    b.node("Concat", ["cut", "other"], "j", axis=1)
    b.constant("twice", np.array([1, 1, 2, 2], np.float32))
    b.node("Resize", ["j", "", "twice"], "large", mode="nearest")
    b.conv("large", "y", (8, 4))
    model = b.model([X], [("y", "float32", (1, 4, 12, 16))], opset=18)
    made, counts = all_quantized(model, store)
    assert counts["QLinearConv"] == 3
    assert counts["QLinearSigmoid"] == counts["QLinearMul"] == 1
    assert counts["QuantizeLinear"] == counts["DequantizeLinear"] == 1
    assert is_near(model, made)
    assert float(array_of(made.graph.initializers["s__scale"])) == np.float32(1 / 255)  # type: ignore
    examine_quantize("static_qdq", model, store)


def test_products_of_sequences_are_gemms_with_their_bias(store: ArtifactStore) -> None:
    """Rows of a sequence with two free sizes: one integer Gemm, the result in float."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 16, 8)], "m")
    b.node("Add", ["m", b.weight("bias", 8)], "y")
    model = b.model([("x", "float32", ("N", "L", 16))], [("y", "float32", ("N", "L", 8))])
    gemm, plain = PLUGIN.sites(opened(model), offer())
    assert gemm.get("gemm") is True
    assert "gemm" not in dict(plain.parameters)
    made, counts = all_quantized(model, store)
    assert counts["QGemm"] == 1
    assert "DequantizeLinear" not in counts
    assert is_near(model, made)
    examine_quantize("static_qdq", model, store)


def test_a_wide_pointwise_convolution_may_be_a_gemm(store: ArtifactStore) -> None:
    """Pixels as rows, where the search asks for it; a convolution stays first choice."""
    b = Builder()
    b.conv("x", "a", (4, 256), kernel=1)
    b.node("Erf", ["a"], "e")
    b.conv("e", "p", (256, 8), kernel=1)
    b.node("Erf", ["p"], "y")
    model = b.model([X], [("y", "float32", (1, 8, 8, 8))])
    graph = opened(model)
    actions = [a for a in PLUGIN.sites(graph, offer()) if a.get("gemm", default=False)]
    assert [action.site for action in actions] == ["a", "p"]
    made = at_every_site("static_qdq", graph, evidence_of(model, store), actions)
    counts = lowered_counts(made, graphs.random_feeds(model)[0])
    assert counts["QGemm"] == 2
    assert "QLinearConv" not in counts
    assert is_near(model, made)
    left = PLUGIN.sites(made, offer())
    assert left == ()


def test_a_stem_is_a_group_of_its_own_and_left_alone_unless_a_pool_follows() -> None:
    """Few channels are slow in integers; a float pool before integers would be slower still."""
    for pool in (False, True):
        b = Builder()
        b.conv("x", "c", (4, 8))
        source = (
            b.node("MaxPool", ["c"], "pool", kernel_shape=[3, 3], pads=[1] * 4) if pool else "c"
        )
        for index in range(60):
            source = b.conv(source, f"c{index}", (8, 8), kernel=1)
        graph = opened(b.model([X], [(source, "float32", (1, 8, 8, 8))]))
        assert groups(graph)[0].nodes == (("c", "pool") if pool else ("c",))
        assert releasable_stem(graph) == (None if pool else "c")


def test_the_range_method_is_one_forall_quantized(store: ArtifactStore) -> None:
    """Chosen before the first group, it decides every scale; afterwards it is refused."""
    model = graphs.conv_chain()
    graph, evidence = opened(model), evidence_of(model, store)
    scales: dict[str, float] = {}
    for method in ("minmax", "average"):
        editor = Editor(graph.clone())
        action = Action.of("calibrate", "*", range=method)
        if method != "minmax":
            assert action in CALIBRATE.sites(graph, offer())
            assert CALIBRATE.apply(editor, action, evidence) == action
            assert CALIBRATE.sites(editor.model, offer()) == ()
        for each in first_of_each_site(graph, offer()):
            assert isinstance(PLUGIN.apply(editor, each, evidence), Action)
        scales[method] = float(array_of(editor.graph.initializers["x__scale"]))  # type: ignore
        refused = CALIBRATE.apply(editor, action, evidence)
        assert isinstance(refused, Rejection)
        assert "already" in refused.reason
    assert scales["average"] < scales["minmax"]
    unknown = CALIBRATE.apply(Editor(graph), Action.of("calibrate", "*", range="best"), evidence)
    assert isinstance(unknown, Rejection)


def test_squares_and_spelled_gelus_are_left_in_float() -> None:
    """A Mul of a value with itself doubles the dynamic range; 1 + erf(..) fuses in float only."""
    b = Builder()
    b.conv("x", "c", (4, 8))
    b.node("Mul", ["c", "c"], "square")
    b.constant("one", np.ones((), np.float32))
    b.node("Mul", ["c", b.node("Add", [b.node("Erf", ["c"], "e"), "one"], "s")], "gelu")
    b.node("Mul", ["c", "gelu"], "y")
    graph = opened(b.model([X], [(n, "float32", (1, 8, 8, 8)) for n in ("y", "square")]))
    assert [group.nodes for group in groups(graph)] == [("c", "y")]


def test_a_weighted_sum_of_squares_is_no_group() -> None:
    """As in a normalization: eight bits would hold the loud values only."""
    b = Builder()
    b.conv("x", "c", (4, 8))
    b.node("Mul", ["c", "c"], "square")
    b.conv("square", "sum", (8, 8), kernel=1)
    b.node("Div", ["c", "sum"], "y")
    graph = opened(b.model([X], [("y", "float32", (1, 8, 8, 8))]))
    assert [group.nodes for group in groups(graph)] == [("c",)]


def test_a_pool_in_float_stays_there(store: ArtifactStore) -> None:
    """Behind float arithmetic its quantizer is not moved above it, and cuts no code."""
    for pool in ("MaxPool", "AveragePool"):
        b = Builder()
        b.conv("x", "c", (4, 8))
        b.node("Exp", [b.node("Tanh", ["c"], "t")], "e")
        b.node(pool, ["e"], "p", kernel_shape=[3, 3], pads=[1] * 4)
        b.conv("p", "y", (8, 4))
        model = b.model([X], [("y", "float32", (1, 4, 8, 8))])
        made, counts = all_quantized(model, store)
        assert counts["QLinearConv"] == 2
        assert counts[pool] == counts["Min"] == 1
        assert is_near(model, made)
        examine_quantize("static_qdq", model, store)


@pytest.mark.parametrize("inside", [0, 1])
def test_an_average_is_a_depthwise_convolution(inside: int, store: ArtifactStore) -> None:
    """Windows that divide by fewer at the border are corrected by a product in integers."""
    b = Builder()
    b.conv("x", "c", (4, 8))
    b.node("AveragePool", ["c"], "p", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=inside)
    b.conv("p", "y", (8, 4))
    model = b.model([X], [("y", "float32", (1, 4, 8, 8))])
    made, counts = all_quantized(model, store)
    assert counts["QLinearConv"] == 3
    assert counts.get("QLinearMul", 0) == 1 - inside
    assert not counts.keys() & {"AveragePool", "QLinearAveragePool"}
    assert is_near(model, made)
    examine_quantize("static_qdq", model, store)


@pytest.mark.parametrize("inside", [0, 1])
def test_an_average_of_a_free_size_stays_float_where_its_border_counts(
    inside: int, store: ArtifactStore
) -> None:
    """What windows divide by is not known before the size is; where all divide alike it is."""
    b = Builder()
    b.conv("x", "c", (4, 8))
    b.node("AveragePool", ["c"], "p", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=inside)
    b.conv("p", "y", (8, 4))
    free = ("N", 4, "H", "W")
    model = b.model([("x", "float32", free)], [("y", "float32", free)])
    made, counts = all_quantized(model, store)
    assert counts.get("AveragePool", 0) == counts.get("Min", 0) == 1 - inside
    assert counts["QLinearConv"] == 2 + inside
    assert is_near(model, made)
