"""Layer tables of graphs, and how far their values lie from the given model's."""

import numpy as np
import pytest

from edgeopt.core.layers import SAME_DB, family, weighted
from edgeopt.errors import ModelError
from edgeopt.graph.editor import array_of
from edgeopt.graph.layers import layers_of
from edgeopt.graph.noise import ValueReference
from edgeopt.graph.runtime import observed_shapes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder


def _coded() -> object:
    """A convolution between codes, and one whose output stays float."""
    b = Builder(0)
    for name in ("s", "ws"):
        b.constant(name, np.array(0.05, np.float32))
    b.constant("z", np.array(128, np.uint8))
    b.constant("wz", np.array(0, np.int8))
    b.constant("w.q", np.ones((4, 3, 3, 3), np.int8))
    b.node("QuantizeLinear", ["x", "s", "z"], "x.q")
    b.node("DequantizeLinear", ["x.q", "s", "z"], "x.d")
    b.node("DequantizeLinear", ["w.q", "ws", "wz"], "w")
    b.node("Conv", ["x.d", "w"], "inside")
    b.node("QuantizeLinear", ["inside", "s", "z"], "inside.q")
    b.node("DequantizeLinear", ["inside.q", "s", "z"], "inside.d")
    b.node("Conv", ["inside.d", b.weight("w2", 2, 4, 1, 1)], "y")
    return graphs.as_graph(
        b.model([("x", "float32", (1, 3, 8, 8))], [("y", "float32", (1, 2, 6, 6))])
    )


def test_rows_hold_what_the_graph_asks_for() -> None:
    """Width, weights, multiply-adds and where the first input comes from."""
    model = graphs.conv_chain()
    graph = graphs.as_graph(model)
    rows = {row.value: row for row in layers_of(graph, observed_shapes(graph, _feed(model)))}
    first, second, last = rows["conv1"], rows["conv2"], rows["logits"]
    assert (first.operator, first.asked, first.width, first.source) == ("Conv", "float32", 8, None)
    assert second.shape == (1, 12, 8, 8)
    assert second.macs == 12 * 8 * 8 * 8 * 9
    assert second.weight_bytes == 4 * (12 * 8 * 9 + 12)
    assert list(rows)[second.source or 0] == "relu1"
    assert (last.width, last.macs) == (5, 5 * 4)
    assert rows["relu1"].macs == 0


def _feed(model: object) -> dict[str, np.ndarray]:
    return graphs.random_feeds(model, free=1)[0]  # type: ignore[arg-type, return-value]


def test_codes_are_no_layers_and_say_what_is_asked() -> None:
    """Between codes int8 is asked for; weights count as they are stored."""
    rows = layers_of(_coded())  # type: ignore[arg-type]
    assert [(r.value, r.asked, r.source) for r in rows] == [
        ("inside", "int8", None),
        ("y", "float32", 0),
    ]
    assert rows[0].weight_bytes == 4 * 3 * 9 + 4 + 1


def test_families_see_through_kernel_names() -> None:
    """What a runtime calls its kernels is the same kind of operator."""
    assert family("com.microsoft:QLinearConv") == family("Conv") == "Conv"
    assert family("com.microsoft:QLinearAdd") == "Add"
    assert weighted("com.microsoft:QGemm")
    assert not weighted("Relu")


def test_equal_graphs_do_not_differ_anywhere() -> None:
    """Every value of the main graph is compared."""
    model = graphs.conv_chain()
    reference = ValueReference(graphs.as_graph(model), graphs.random_feeds(model, 2))
    found = reference.against(graphs.as_graph(model))
    assert set(found.values()) == {SAME_DB}
    assert {"conv1", "relu3", "logits"} <= found.keys()


def test_an_error_of_one_per_cent_is_forty_decibels() -> None:
    """From the changed layer on, and nothing before it."""
    model = graphs.conv_chain()
    changed = graphs.as_graph(model)
    for node in changed.graph:
        if node.outputs[0].name == "conv2":
            for value in node.inputs[1:]:
                assert value is not None
                array = array_of(value)
                assert array is not None
                value.const_value = _scaled(array)
    found = ValueReference(graphs.as_graph(model), graphs.random_feeds(model, 4)).against(changed)
    assert found["conv1"] == SAME_DB
    assert found["conv2"] == pytest.approx(40, abs=4)
    assert 20 < found["logits"] < 60


def _scaled(array: np.ndarray) -> object:
    import onnx_ir as ir

    return ir.tensor((array * 1.01).astype(np.float32))


def test_values_of_another_shape_or_name_are_left_out() -> None:
    """A wider layer cannot be compared; its sum may be."""
    given, wider = graphs.conv_chain(), graphs.conv_chain((3, 8, 16, 4))
    feeds = graphs.random_feeds(given)
    found = ValueReference(graphs.as_graph(given), feeds).against(graphs.as_graph(wider))
    assert "conv2" not in found
    assert "logits" in found


def test_without_inputs_there_is_nothing_to_compare() -> None:
    """Said, not guessed."""
    with pytest.raises(ModelError):
        ValueReference(graphs.as_graph(graphs.conv_chain()), [])
