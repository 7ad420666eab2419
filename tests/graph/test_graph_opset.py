"""The operator set of a normalised model: as high as is safe, and none of its kernels slower."""

import numpy as np
import onnx
import pytest

from edgeopt.graph.equivalence import compare
from edgeopt.graph.normalize import normalize, notes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder


def old_model(opset: int) -> onnx.ModelProto:
    """Opset 11 spelling: axes of ReduceSum and Squeeze are attributes."""
    b = Builder()
    b.batchnorm(b.conv("x", "conv1", (3, 4)), "bn1", 4)
    b.node("ReduceSum", ["bn1"], "total", axes=[2], keepdims=1)
    b.node("Squeeze", ["total"], "y", axes=[2])
    shape = ("N", 3, 8, 8)
    return b.model([("x", "float32", shape)], [("y", "float32", ("N", 4, 8))], opset=opset)


@pytest.mark.parametrize("ceiling", [13, 17, 21])
def test_the_opset_is_raised_to_the_ceiling(ceiling: int) -> None:
    """An old model reaches the ceiling with equal outputs, and no constant nodes are left."""
    model = old_model(11)
    found = normalize(graphs.as_graph(model), opset_ceiling=ceiling)
    assert found.opset_imports[""] == ceiling
    assert notes(found) == ()
    assert "Constant" not in [node.op_type for node in found.graph]
    assert compare(graphs.as_graph(model), found, graphs.random_feeds(model, 2)).ok


def test_the_opset_is_not_lowered_to_a_ceiling() -> None:
    """A model above the ceiling stays where it is."""
    model = graphs.conv_chain()
    assert normalize(graphs.as_graph(model), opset_ceiling=13).opset_imports[""] == 17


def pools(opset: int, operator: str = "AveragePool", **attributes: object) -> onnx.ModelProto:
    b = Builder()
    b.node(operator, ["x"], "y", **{"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], **attributes})
    shape = ("N", 3, 8, 8)
    return b.model([("x", "float32", shape)], [("y", "float32", shape)], opset=opset)


@pytest.mark.parametrize(("given", "ceiling"), [(11, 21), (18, 21), (19, 21), (21, 21), (21, 19)])
def test_average_pools_stay_below_the_slower_kernel(given: int, ceiling: int) -> None:
    """Raised only to 18 and lowered to it: from 19 on an average pool is a plain loop."""
    model = pools(given)
    found = normalize(graphs.as_graph(model), opset_ceiling=ceiling)
    assert found.opset_imports[""] == 18
    assert notes(found) == ()
    assert compare(graphs.as_graph(model), found, graphs.random_feeds(model, 2)).ok


def test_a_dilated_average_pool_keeps_its_opset() -> None:
    """Opset 18 can't say it."""
    model = pools(19, dilations=[1, 2], pads=[1, 2, 1, 2])
    found = normalize(graphs.as_graph(model), opset_ceiling=21)
    assert found.opset_imports[""] == 21


def test_other_pools_are_raised() -> None:
    """No newer version of a maximum pool is slower."""
    found = normalize(graphs.as_graph(pools(11, "MaxPool")), opset_ceiling=21)
    assert found.opset_imports[""] == 21


def test_what_cannot_be_lowered_stays_and_a_note_says_why() -> None:
    """A GELU of opset 20 beside an average pool."""
    b = Builder()
    b.node("Gelu", ["x"], "h")
    b.node("AveragePool", ["h"], "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    shape = ("N", 3, 8, 8)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)], opset=20)
    found = normalize(graphs.as_graph(model), opset_ceiling=21)
    assert found.opset_imports[""] == 20
    assert "opset stays 20" in notes(found)[0]


def test_without_comparable_inputs_the_opset_stays_and_a_note_says_so() -> None:
    """A feed that the model refuses: nothing is raised, and why is told."""
    feed = {"wrong": np.zeros(3, np.float32)}
    found = normalize(graphs.as_graph(old_model(11)), feed=feed)
    assert found.opset_imports[""] == 11
    assert "opset stays 11" in notes(found)[0]
