"""Costs by arithmetic, checked against what a person counts."""

import numpy as np
import pytest

from edgeopt.graph.cost import per_layer, static_cost
from edgeopt.graph.editor import Editor, new_node
from edgeopt.graph.runtime import observed_shapes
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder


def test_a_chain_counted_by_hand() -> None:
    """Two 3x3 convolutions, pooling and a product, batch 1."""
    graph = graphs.as_graph(graphs.conv_chain((3, 8, 4)))
    cost = static_cost(graph)
    convolutions = 64 * 8 * 3 * 9 + 64 * 4 * 8 * 9
    assert cost["macs"] == convolutions + 5 * 4
    assert cost["params"] == 8 * 3 * 9 + 8 + 4 * 8 * 9 + 4 + 5 * 4 + 5
    assert cost["nodes"] == 7
    assert cost["size_bytes"] == len(to_bytes(graph))
    # The largest moment: x is kept, conv1 and relu1 are both alive.
    assert cost["activation_bytes"] == 4 * 64 * (3 + 8 + 8)


def test_the_batch_multiplies() -> None:
    """With shapes of a batch of 5, products and activations are five times as many."""
    model = graphs.conv_chain()
    graph = graphs.as_graph(model)
    one = static_cost(graph)
    five = static_cost(graph, observed_shapes(graph, graphs.random_feeds(model, free=5)[0]))
    assert five["macs"] == 5 * one["macs"]
    assert five["activation_bytes"] == 5 * one["activation_bytes"]
    assert five["size_bytes"] == one["size_bytes"]


def test_depthwise_counts_its_own_channel_only() -> None:
    """A grouped convolution has in / group products an output element."""
    layers = {layer.name: layer for layer in per_layer(graphs.as_graph(graphs.mobilenet_block()))}
    assert layers["depthwise/node"].macs == 64 * 16 * 9
    assert layers["depthwise/node"].params == 16 * 9 + 16
    assert layers["project/node"].macs == 64 * 8 * 16
    assert layers["y/node"].macs == 0
    assert layers["y/node"].bytes == 4 * 64 * 8


def test_recurrence() -> None:
    """An LSTM: steps x batch x 4 gates x hidden x (inputs + hidden)."""
    assert static_cost(graphs.as_graph(graphs.lstm()))["macs"] == 1 * 1 * 4 * 6 * (4 + 6)


@pytest.mark.parametrize(("transposed", "shape"), [(0, (3, 5)), (1, (5, 3))])
def test_a_transposed_product(transposed: int, shape: tuple[int, int]) -> None:
    """[3, 5] x [5, 2], also where the left side is stored transposed."""
    b = Builder()
    b.weight("w", 5, 2)
    b.node("Gemm", ["x", "w"], "y", transA=transposed)
    model = b.model([("x", "float32", shape)], [("y", "float32", (3, 2))])
    assert static_cost(graphs.as_graph(model))["macs"] == 3 * 2 * 5


def test_transposed_convolution() -> None:
    """Every input element is spread over out x kernel."""
    b = Builder()
    b.weight("w", 3, 4, 2, 2)
    b.node("ConvTranspose", ["x", "w"], "y", strides=[2, 2])
    model = b.model([("x", "float32", (1, 3, 5, 5))], [("y", "float32", (1, 4, 10, 10))])
    assert static_cost(graphs.as_graph(model))["macs"] == 3 * 25 * 4 * 4


def test_both_branches_count() -> None:
    """Nodes and weights of subgraphs are in the sums."""
    cost = static_cost(graphs.as_graph(graphs.if_model()))
    assert cost["nodes"] == 7
    assert cost["macs"] == 2 * 4 * 4
    assert cost["params"] == 2 * 16 + 1


def test_eight_bits_are_one_byte() -> None:
    """A quantized activation counts a quarter of a float one."""
    b = Builder()
    b.constant("scale", np.array(0.1, np.float32))
    b.constant("zero", np.array(0, np.uint8))
    b.node("QuantizeLinear", ["x", "scale", "zero"], "q")
    model = b.model([("x", "float32", (1, 8))], [("q", "uint8", (1, 8))])
    assert per_layer(graphs.as_graph(model))[0].bytes == 8
    assert static_cost(graphs.as_graph(model))["activation_bytes"] == 4 * 8 + 8


def test_values_without_a_shape_are_inferred() -> None:
    """A node that an edit has just put in has no shape: it counts nevertheless."""
    editor = Editor(graphs.as_graph(graphs.gemm_chain()))
    node = list(editor.graph)[-1]
    source = node.inputs[0]
    assert source is not None
    made = new_node("Abs", [source], output="magnitude")
    editor.insert([made], before=node)
    editor.set_input(node, 0, made.outputs[0])
    before = to_bytes(editor.model)
    layers = {layer.name: layer for layer in per_layer(editor.model)}
    assert layers["magnitude/Abs"].bytes == 4 * 12
    assert to_bytes(editor.model) == before
