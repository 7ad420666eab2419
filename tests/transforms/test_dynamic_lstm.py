"""Dynamic integers in recurrent layers, also in the bodies of control flow."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
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
from edgeopt.transforms.stages import transform_of
from tests.transforms.small_nets import feeds_of, recurrent

Net = Callable[[], onnx.ModelProto]


@pytest.mark.parametrize(
    "net",
    [
        graphs.lstm,
        recurrent,
        lambda: recurrent(directions=2),
        lambda: recurrent(direction="reverse", state=True),
        lambda: recurrent(directions=2, state=True, lengths=True),
    ],
    ids=["state", "plain", "both", "reverse", "lengths"],
)
def test_lstm(net: Net, store: ArtifactStore) -> None:
    """All directions, states and lengths are kept in the integer LSTM."""
    assert len(examine_quantize("dynamic_lstm", net(), store, least_db=25)) == 1


def _in_body() -> onnx.ModelProto:
    """An If whose branches are an LSTM with its own weights, or a slice of the input."""
    inner = recurrent().graph
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
    assert sqnr_db(model.SerializeToString(), to_bytes(made), feeds_of(model)) > 25
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
