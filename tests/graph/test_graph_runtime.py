"""The door to the runtime: short reasons, values in between, shapes, profiles."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.errors import ModelError
from edgeopt.graph.check import check
from edgeopt.graph.runtime import (
    RuntimeFailure,
    Session,
    observe,
    observed_shapes,
    profile_nodes,
    synthetic_feed,
)
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder

X = np.zeros((2, 3, 8, 8), np.float32)
BAD_FEEDS = {
    "nothing": {},
    "rank": {"x": X[0]},
    "dtype": {"x": X.astype(np.float64)},
    "shape": {"x": X[:, :2]},
    "name": {"x": X, "extra": X},
}


@pytest.mark.parametrize("case", BAD_FEEDS)
def test_a_feed_that_does_not_fit_is_one_sentence(case: str) -> None:
    """The failure is one line without the runtime's prefixes and source paths."""
    session = Session(graphs.conv_chain().SerializeToString())
    with pytest.raises(RuntimeFailure) as caught:
        session.run(BAD_FEEDS[case])
    assert "\n" not in caught.value.what
    assert "ONNXRuntimeError" not in caught.value.what
    assert ".cc" not in caught.value.what


def test_a_model_that_does_not_load_is_one_sentence(tmp_path: Path) -> None:
    """Noise, a missing file, and an operator that the runtime does not have."""
    unknown = graphs.conv_chain()
    unknown.graph.node[1].op_type = "Relux"
    for model in (b"noise", tmp_path / "none.onnx", unknown.SerializeToString()):
        with pytest.raises(RuntimeFailure, match="does not load") as caught:
            Session(model)
        assert "\n" not in caught.value.what
        assert ".cc" not in caught.value.what


def test_all_outputs_or_the_named_ones(tmp_path: Path) -> None:
    """A session runs from a file or from bytes and gives what is asked for."""
    model = graphs.lstm()
    feed = graphs.random_feeds(model)[0]
    session = Session(graphs.write(model, tmp_path), RuntimeSettings(optimization="off"))
    assert session.inputs == ("x", "h", "c")
    assert session.outputs == ("y", "hn", "cn")
    assert list(session.run(feed)) == ["y", "hn", "cn"]
    assert list(session.run(feed, ["cn"])) == ["cn"]


def test_values_in_between_are_seen() -> None:
    """Intermediates, inputs, outputs and constants, feed by feed; the graph stays as it is."""
    model = graphs.conv_chain()
    graph = graphs.as_graph(model)
    before = to_bytes(graph)
    feeds = graphs.random_feeds(model, 2)
    seen = list(observe(graph, ["relu1", "x", "logits", "fc.b"], feeds))
    assert to_bytes(graph) == before
    assert [list(values) for values in seen] == [["relu1", "x", "logits", "fc.b"]] * 2
    expected = [Session(before).run(feed)["logits"] for feed in feeds]
    for values, feed, logits in zip(seen, feeds, expected, strict=True):
        assert values["relu1"].min() == 0
        assert values["x"] is feed["x"]
        assert values["fc.b"].shape == (5,)
        np.testing.assert_allclose(values["logits"], logits, rtol=1e-4, atol=1e-5)


def test_only_one_feed_is_in_work_at_a_time() -> None:
    """Feeds are drawn when their values are asked for, so memory does not grow with them."""
    model = graphs.conv_chain()
    drawn: list[int] = []

    def feeds():
        for index, feed in enumerate(graphs.random_feeds(model, 3)):
            drawn.append(index)
            yield feed

    stream = observe(graphs.as_graph(model), ["conv1"], feeds())
    assert drawn == []
    next(stream)
    assert drawn == [0]


def test_an_unknown_value_cannot_be_observed() -> None:
    """A name that the main graph does not have is a sentence."""
    graph = graphs.as_graph(graphs.if_model())
    with pytest.raises(ModelError, match=r"'then\.mm'"):
        list(observe(graph, ["then.mm"], graphs.random_feeds(graphs.if_model())))


def test_shapes_are_those_of_the_feed() -> None:
    """Every value of the main graph has its concrete shape, constants included."""
    model = graphs.conv_chain()
    shapes = observed_shapes(graphs.as_graph(model), graphs.random_feeds(model, free=5)[0])
    assert shapes["x"] == (5, 3, 8, 8)
    assert shapes["pool"] == (5, 4, 1, 1)
    assert shapes["logits"] == (5, 5)
    assert shapes["fc.w"] == (5, 4)


@pytest.mark.parametrize("build", [graphs.conv_chain, graphs.lstm, graphs.if_model])
def test_a_synthetic_feed_fits(build) -> None:
    """Names, dtypes and shapes of invented inputs are those that the model asks for."""
    graph = graphs.as_graph(build())
    assert Session(to_bytes(graph)).run(synthetic_feed(graph))


def test_a_profile_names_what_was_executed(tmp_path: Path) -> None:
    """Nodes have operator, provider, element types and a positive time."""
    model = graphs.gemm_chain()
    path = graphs.write(model, tmp_path)
    settings = RuntimeSettings(optimization="off")
    nodes = profile_nodes(path, settings, graphs.random_feeds(model)[0], 3)["nodes"]
    assert [node["op"] for node in nodes] == ["Gemm", "Relu", "Gemm", "Relu", "Gemm"]
    assert [node["name"] for node in nodes] == [node.name for node in model.graph.node]
    assert all(node["time_s"] > 0 for node in nodes)
    assert set(nodes[0]["inputs"]) == set(nodes[0]["outputs"]) == {"float"}
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_check_takes_valid_models_and_what_the_runtime_takes() -> None:
    """Valid graphs pass; an unsorted one passes since the runtime runs it."""
    for build in (graphs.conv_chain, graphs.if_model, graphs.lstm):
        check(graphs.as_graph(build()))
    model = graphs.residual()
    model.graph.node[0].name = model.graph.node[1].name = ""
    check(graphs.as_graph(model))


def test_check_refuses_what_contradicts_itself() -> None:
    """A product of widths that do not fit is refused with the checker's words."""
    b = Builder()
    b.weight("w", 5, 3)
    b.node("MatMul", ["x", "w"], "y")
    model = b.model([("x", "float32", (2, 4))], [("y", "float32", (2, 3))])
    with pytest.raises(ModelError, match="not valid") as caught:
        check(graphs.as_graph(model))
    assert "runtime says" in caught.value.hint


def test_check_refuses_a_missing_attribute() -> None:
    """A Cast without its target type is refused."""
    b = Builder()
    b.node("Cast", ["x"], "y")
    with pytest.raises(ModelError, match="to"):
        check(graphs.as_graph(b.model([("x", "float32", (2,))], [("y", "int64", (2,))])))


def test_an_output_that_holds_nothing_is_one_sentence() -> None:
    """An optional without a value is no array that anybody could compare."""
    tensor = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    node = helper.make_node("Optional", [], ["y"], type=tensor)
    made = helper.make_value_info("y", helper.make_optional_type_proto(tensor))
    graph = helper.make_graph([node], "g", [given], [made])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = Session(model.SerializeToString())
    with pytest.raises(RuntimeFailure, match="'y' holds nothing"):
        session.run({"x": np.zeros(2, np.float32)})
