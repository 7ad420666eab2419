"""Codes that float nodes read more than once are dequantized once, so activations stay one node."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
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
from edgeopt.transforms.groups import groups
from edgeopt.transforms.quantize._gelu import SIGMOID_GELU
from edgeopt.transforms.quantize.static_qdq import PLUGIN

X, Y = ("x", "float32", (1, 4, 8, 8)), ("y", "float32", (1, 8, 8, 8))
PLAIN = RuntimeSettings(optimization="off")
Spelled = Callable[[Builder, str, str], None]


def gelu(b: Builder, x: str, y: str) -> None:
    """x · (1 + Erf(x / sqrt(2))) / 2, as exporters write it."""
    erf = b.node("Erf", [b.node("Div", [x, number(b, math.sqrt(2))], f"{y}_d")], f"{y}_e")
    above = b.node("Add", [erf, number(b, 1.0)], f"{y}_a")
    b.node("Mul", [b.node("Mul", [x, above], f"{y}_m"), number(b, 0.5)], y)


def bent(b: Builder, x: str, y: str) -> None:
    """Tanh(Softplus(x)) / 2 - 0.3 x, which the runtime fuses in no precision; one read less."""
    third = b.node("Mul", [x, number(b, 0.3)], f"{y}_third")
    curve = b.node("Tanh", [b.node("Softplus", [x], f"{y}_s")], f"{y}_t")
    b.node("Sub", [b.node("Div", [curve, number(b, 2.0)], f"{y}_h"), third], y)


def number(b: Builder, value: float) -> str:
    """A scalar constant."""
    return b.constant(f"number_{value:.6f}", np.asarray(value, np.float32))


def net(spelled: Spelled) -> onnx.ModelProto:
    """Conv, activation, Conv, activation, Conv."""
    b = Builder()
    spelled(b, b.conv("x", "c", (4, 8)), "first")
    spelled(b, b.conv("first", "d", (8, 8)), "second")
    b.conv("second", "y", (8, 8))
    return b.model([X], [Y])


def quantized(model: onnx.ModelProto, store: ArtifactStore) -> ir.Model:
    graph = opened(model)
    return at_every_site("static_qdq", graph, evidence_of(model, store), actions(graph))


def actions(graph: ir.Model) -> list[Action]:
    plain = (a for a in PLUGIN.sites(graph, offer()) if not a.get(SIGMOID_GELU, False))
    first = {action.site: action for action in reversed(list(plain))}
    return list(reversed(first.values()))


@pytest.mark.parametrize("spelled", [gelu, bent])
def test_codes_are_dequantized_once(spelled: Spelled, store: ArtifactStore) -> None:
    """Two values between convolutions, and the output: three, whoever reads them how often."""
    model = net(spelled)
    made = quantized(model, store)
    counts = lowered_counts(made, graphs.random_feeds(model)[0])
    assert counts["QLinearConv"] == counts["DequantizeLinear"] == counts["QuantizeLinear"] == 3
    assert sqnr_db(model.SerializeToString(), to_bytes(made), graphs.random_feeds(model, 4)) > 25.0
    examine_quantize("static_qdq", model, store)


def test_a_spelled_gelu_stays_one_operator(store: ArtifactStore) -> None:
    """As the runtime makes it of the float model."""
    model = net(gelu)
    feed = graphs.random_feeds(model)[0]
    for graph in (opened(model), quantized(model, store)):
        counts = lowered_counts(graph, feed)
        assert (counts["Gelu"], counts.get("Erf", 0), counts.get("Div", 0)) == (2, 0, 0)


@pytest.mark.parametrize("spelled", [gelu, bent])
def test_no_value_changes(spelled: Spelled, store: ArtifactStore) -> None:
    """Bit for bit what the same graph without that node computes."""
    model = net(spelled)
    made = quantized(model, store)
    editor = Editor(made.clone())
    cuts = [node for node in editor.graph if node.op_type == "Sum"]
    assert len(cuts) == 2
    for node in cuts:
        source = node.inputs[0]
        assert source is not None
        editor.replace_uses(node.outputs[0], source)
        editor.remove_dead([node])
    one, other = (Session(to_bytes(each), PLAIN) for each in (made, editor.model))
    for feed in graphs.random_feeds(model, 4, seed=3):
        loud = {name: array * 10 for name, array in feed.items()}
        for each in (feed, loud):
            np.testing.assert_array_equal(one.run(each)["y"], other.run(each)["y"])


def test_the_order_of_groups_does_not_matter(store: ArtifactStore) -> None:
    """One net for all orders, and the groups of the float graph while it is made."""
    model = net(gelu)
    graph = opened(model)
    whole, listed = groups(graph), actions(graph)
    outputs: list[np.ndarray] = []
    for order in itertools.permutations(listed):
        made = at_every_site("static_qdq", graph, evidence_of(model, store), order)
        assert groups(made) == whole
        assert sum(node.op_type == "Sum" for node in made.graph) == 2
        outputs.append(Session(to_bytes(made), PLAIN).run(graphs.random_feeds(model)[0])["y"])
    assert len(outputs) == 6
    assert all(np.array_equal(outputs[0], other) for other in outputs)


def test_a_single_reader_reads_the_pair(store: ArtifactStore) -> None:
    """And so do two that may become integer."""
    b = Builder()
    b.node("Tanh", [b.conv("x", "c", (4, 8))], "t")
    b.conv("t", "d", (8, 8))
    b.node("Add", [b.conv("d", "e", (8, 8)), "d"], "y")
    made = quantized(b.model([X], [Y]), store)
    assert not [node for node in made.graph if node.op_type == "Sum"]
