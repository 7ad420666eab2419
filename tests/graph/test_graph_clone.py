"""Copies of models in memory."""

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.clone import cloned
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened
from tests.transforms.nested_nets import chosen


@pytest.mark.parametrize(
    "net", [graphs.residual, graphs.mobilenet_block, graphs.gemm_chain, chosen]
)
def test_a_copy_is_the_same_model_of_its_own(net) -> None:
    """Equal bytes, tensors shared, and nothing else: edits of the copy are not the model's."""
    graph = opened(net())
    before = to_bytes(graph)
    copy = cloned(graph)
    assert to_bytes(copy) == before == to_bytes(graph.clone())
    own = {id(node) for node in graph.graph.all_nodes()}
    assert own.isdisjoint(id(node) for node in copy.graph.all_nodes())
    for name, value in graph.graph.initializers.items():
        assert copy.graph.initializers[name] is not value
        assert copy.graph.initializers[name].const_value is value.const_value
    for node in copy.graph:
        node.name = f"{node.name}_2"
        for value in node.outputs:
            value.shape = None
    assert to_bytes(graph) == before


def test_notes_and_names_go_along() -> None:
    """What is noted of graph, nodes and values, written or not, and outputs without a name."""
    b = Builder()
    b.constant("w", np.ones((3, 2), np.float32))
    b.node("MatMul", ["x", "w"], "y")
    graph = opened(b.model([("x", "float32", ("N", 3))], [("y", "float32", ("N", 2))]))
    (node,) = graph.graph
    graph.graph.meta["plan"], node.meta["seen"] = {"a": 1}, 2
    node.metadata_props["origin"], graph.metadata_props["of"] = "here", "us"
    node.outputs[0].meta.invalidate("shape")
    copy = cloned(graph)
    (made,) = copy.graph
    assert copy.graph.meta["plan"] is graph.graph.meta["plan"]
    assert (made.meta["seen"], made.metadata_props["origin"]) == (2, "here")
    assert copy.metadata_props["of"] == "us"
    assert not made.outputs[0].meta.is_valid("shape")
    made.metadata_props["origin"] = "there"
    assert node.metadata_props["origin"] == "here"


def test_an_unsorted_graph_is_refused() -> None:
    """A node that reads what is made behind it is the library's to refuse."""
    graph = opened(graphs.gemm_chain())
    first = next(iter(graph.graph))
    graph.graph.remove(first)
    graph.graph.append(first)
    with pytest.raises(RuntimeError, match="clone_graph"):
        cloned(graph)


def test_types_of_the_copy_are_recorded() -> None:
    """Element types and shapes, which transforms ask for."""
    graph = opened(graphs.residual())
    pairs = zip(graph.graph, cloned(graph).graph, strict=True)
    for old, new in pairs:
        assert [v.dtype for v in old.outputs] == [v.dtype for v in new.outputs]
        assert [v.shape for v in old.outputs] == [v.shape for v in new.outputs]
        assert isinstance(new, ir.Node)
