"""GELU in integers: a product of codes, near to what the floats between integers compute."""

import itertools
import math

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
from edgeopt.transforms.activations import POINTS
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.groups import groups
from edgeopt.transforms.quantize._gelu import SIGMOID_GELU, gelu_behind
from edgeopt.transforms.quantize.static_qdq import PLUGIN
from tests.transforms.spelled import Spelled, gelu, gelu_by_tanh, hard_swish, mish, swish

X, Y = ("x", "float32", (1, 4, 8, 8)), ("y", "float32", (1, 8, 8, 8))
PLAIN = RuntimeSettings(optimization="off")


def operator(b: Builder, x: str, y: str) -> str:
    """The operator of opset 20."""
    return b.node("Gelu", [x], y)


def net(spelled: Spelled, opset: int = 18) -> onnx.ModelProto:
    """Conv, GELU, Conv, GELU, Conv."""
    b = Builder()
    first = spelled(b, b.conv("x", "c", (4, 8)), "first")
    b.conv(spelled(b, b.conv(first, "d", (8, 8)), "second"), "y", (8, 8))
    return b.model([X], [Y], opset=opset)


def actions(graph: ir.Model, *, integer: bool = True) -> list[Action]:
    """One a site, a GELU in integers where there is one and it is asked for."""
    listed = PLUGIN.sites(graph, offer())
    curved = {a.site: a for a in listed if a.get(SIGMOID_GELU, False)}
    rest = (a for a in listed if a not in curved.values() and not a.get("gemm", False))
    plain = {a.site: a for a in rest}
    return list((plain | curved if integer else plain).values())


@pytest.mark.parametrize("spelled", [gelu, gelu_by_tanh, operator])
def test_no_float_is_left_between(spelled: Spelled, store: ArtifactStore) -> None:
    """Integer kernels from input to output, however it is spelled."""
    model = net(spelled, 20 if spelled is operator else 18)
    graph = opened(model)
    asked = actions(graph)
    assert [bool(action.get(SIGMOID_GELU, False)) for action in asked] == [True, True, False]
    made = at_every_site("static_qdq", graph, evidence_of(model, store), asked)
    counts = lowered_counts(made, graphs.random_feeds(model)[0])
    assert counts["QLinearSigmoid"] == counts["QLinearMul"] == 2
    assert counts["QuantizeLinear"] == counts["DequantizeLinear"] == 1
    feeds = graphs.random_feeds(model, 4)
    exact = at_every_site(
        "static_qdq", graph, evidence_of(model, store), actions(graph, integer=False)
    )
    quality = sqnr_db(model.SerializeToString(), to_bytes(made), feeds)
    assert quality > sqnr_db(model.SerializeToString(), to_bytes(exact), feeds) - 6.0
    assert quality > 25.0
    examine_quantize("static_qdq", model, store)


def test_the_approximation_is_as_near_as_it_is_said(store: ArtifactStore) -> None:
    """Of all codes of an identity: within its 0.021 and the steps of what is rounded."""
    b = Builder()
    weight = b.constant("one", np.ones((1, 1, 1, 1), np.float32))
    gelu(b, b.node("Conv", ["x", weight], "c"), "g")
    b.node("Conv", ["g", weight], "y")
    shape = ("float32", (1, 1, 1, len(POINTS)))
    model = b.model([("x", *shape)], [("y", *shape)], opset=18)
    feed = {"x": POINTS.reshape(1, 1, 1, -1).astype(np.float32)}
    graph = opened(model)
    made = at_every_site("static_qdq", graph, evidence_of(model, store, [feed]), actions(graph))
    found = Session(to_bytes(made), PLAIN).run(feed)["y"].reshape(-1)
    wanted = POINTS * (1 + np.vectorize(math.erf)(POINTS / math.sqrt(2))) / 2
    step = 16 / 255
    # Of x half a step, with a slope up to 1.13; of the factor half of 1/255, times 8; of the
    # result half a step where it is made and half of one behind the last layer.
    allowed = 0.021 + 1.13 * step / 2 + 8 / 510 + 8.2 / 255
    assert np.abs(found - wanted).max() <= allowed


def test_the_order_of_groups_does_not_matter(store: ArtifactStore) -> None:
    """One net for all orders, and the groups of the float graph while it is made."""
    model = net(gelu)
    graph = opened(model)
    whole, listed = groups(graph), actions(graph)
    outputs: list[np.ndarray] = []
    for order in itertools.permutations(listed):
        made = at_every_site("static_qdq", graph, evidence_of(model, store), order)
        assert groups(made) == whole
        outputs.append(Session(to_bytes(made), PLAIN).run(graphs.random_feeds(model)[0])["y"])
    assert all(np.array_equal(outputs[0], other) for other in outputs)


@pytest.mark.parametrize("kept", [(0,), (0, 2), (1,), (0, 1), (1, 2)])
def test_what_is_left_in_float_stays_float(kept: tuple[int, ...], store: ArtifactStore) -> None:
    """Whatever groups are quantized, in whatever order: so many integer convolutions run."""
    model = net(gelu)
    graph = opened(model)
    listed = [actions(graph)[index] for index in kept]
    for order in itertools.permutations(listed):
        made = at_every_site("static_qdq", graph, evidence_of(model, store), order)
        counts = lowered_counts(made, graphs.random_feeds(model)[0])
        assert counts["QLinearConv"] == len(kept)


@pytest.mark.parametrize("spelled", [hard_swish, swish, mish])
def test_other_activations_are_left(spelled: Spelled) -> None:
    """A hard swish and a swish have integer kernels as they are; a Mish is something else."""
    listed = PLUGIN.sites(opened(net(spelled)), offer())
    assert not [a for a in listed if a.get(SIGMOID_GELU, False)]


def test_what_something_else_reads_is_left() -> None:
    """The layer's value, or one that the GELU computes on its way."""
    for read in ("c", "g_m"):
        b = Builder()
        gelu(b, b.conv("x", "c", (4, 8)), "g")
        b.node("Add", ["g", read], "y")
        graph = opened(b.model([X], [Y], opset=18))
        values = {value.name: value for node in graph.graph for value in node.outputs}
        assert gelu_behind(graph, values["c"]) is None
        assert not [a for a in PLUGIN.sites(graph, offer()) if a.get(SIGMOID_GELU, False)]


def test_what_is_asked_for_where_there_is_no_gelu_is_refused(store: ArtifactStore) -> None:
    """An action that says so is never one that changes nothing of the kind."""
    model = net(mish)
    graph = opened(model)
    plain = actions(graph, integer=False)[0]
    asked = Action.of(
        plain.transform,
        plain.site,
        version=plain.version,
        **{**dict(plain.parameters), SIGMOID_GELU: True},
    )
    editor = Editor(graph)
    made = PLUGIN.apply(editor, asked, evidence_of(model, store))
    assert isinstance(made, Rejection)
    assert "no GELU" in made.reason
