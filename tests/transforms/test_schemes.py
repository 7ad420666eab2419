"""Alternatives of one group by scheme, and the standard candidates that switch one scheme on."""

import numpy as np
import pytest
from onnx import helper

from edgeopt.core.action import Action
from edgeopt.graph.read import read_model
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.quantize_exam import evidence_of
from edgeopt.testing.transform_exam import offer
from edgeopt.transforms.choices import SCHEMES, for_speed, grouped, scheme_of, switched_on
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> GraphSpace:
    """A table, a long product, an LSTM and a GRU in one row."""
    folder = tmp_path_factory.mktemp("space")
    b = Builder()
    b.node("Gather", [b.weight("table", 300, 128, scale=1.0), "i"], "rows")
    b.node("MatMul", ["rows", b.weight("w", 128, 12)], "product")
    for operator, gates, given in (("LSTM", 4, "product"), ("GRU", 3, "flat")):
        width = 12 if operator == "LSTM" else 8
        names = [
            given,
            b.weight(f"{operator}.w", 1, gates * 8, width),
            b.weight(f"{operator}.r", 1, gates * 8, 8),
        ]
        node = helper.make_node(operator, names, [operator], name=operator, hidden_size=8)
        b.nodes.append(node)
        if operator == "LSTM":
            b.constant("axis", np.array([1]))
            b.node("Squeeze", ["LSTM", "axis"], "flat")
    model = b.model([("i", "int64", (4, 2))], [("GRU", "float32", (4, 1, 2, 8))])
    workshop = Workshop(
        read_model(graphs.write(model, folder)),
        evidence=evidence_of(model, ArtifactStore(folder)),
        opset_ceiling=17,
        feed=graphs.random_feeds(model)[0],
        data_digest="sha256:data",
    )
    return GraphSpace(workshop, offer())


def test_one_choice_a_site_with_schemes_in_order(space: GraphSpace) -> None:
    """Static, dynamic and weight-only forms of one product exclude each other."""
    named = {choice.name: choice for choice in space.choices}
    transforms = [found[0].transform for found in named["quantize:product"].alternatives[1:]]
    kinds = list(dict.fromkeys(transforms))
    assert kinds == ["static_qdq", "dynamic_matmul", "weight_only_blocks"]
    assert {"quantize:rows", "quantize:LSTM", "quantize:GRU"} <= set(named)


def test_everything_on_means_what_may_be_faster(space: GraphSpace) -> None:
    """Size-only alternatives are off where all is switched on, dynamic LSTMs are on."""
    named = {choice.name: choice for choice in space.choices}
    codes = [switched_on(choice, {"quantize"}) for choice in space.choices]
    names = {action.transform for action in space.decode(codes).actions}
    assert {"static_qdq", "dynamic_lstm"} <= names
    assert not {"embedding_int8", "weight_only_int8", "weight_only_blocks"} & names
    assert [for_speed(named[f"quantize:{site}"]) for site in ("rows", "LSTM", "GRU")] == [0, 1, 0]


def test_standard_candidates_by_scheme(space: GraphSpace) -> None:
    """All ranges at run time; and the smallest file, which is smaller than a third."""
    candidates = dict(space.standard())
    chosen = {
        name: {action.transform for action in candidates[name].recipe.actions}
        for name in ("dynamic_int8", "small_int8")
    }
    assert {"dynamic_matmul", "dynamic_lstm"} <= chosen["dynamic_int8"]
    assert not {"static_qdq", "embedding_int8"} & chosen["dynamic_int8"]
    small = {"dynamic_matmul", "dynamic_lstm", "embedding_int8", "weight_only_int8"}
    assert small <= chosen["small_int8"]
    size = space.static_cost(candidates["small_int8"].recipe)["size_bytes"]
    assert size < space.static_cost(space.empty())["size_bytes"] / 3


def test_a_step_decides_its_group(space: GraphSpace) -> None:
    """After a dynamic step the other forms of that group are no longer offered."""
    exact = space.empty()
    step = next(a for a in space.legal(exact) if a.transform == "dynamic_matmul")
    grown = space.then(exact, step)
    assert not isinstance(grown, str)
    left = {action.transform for action in space.legal(grown)}
    assert not {"static_qdq", "dynamic_matmul", "weight_only_blocks"} & left
    assert {"dynamic_lstm", "embedding_int8", "weight_only_int8"} <= left


def test_order_within_a_site() -> None:
    """Listed in the order of schemes, whatever the order of the shelf; sites keep theirs."""
    actions = [
        Action.of("weight_only_blocks", "b", bits=4),
        Action.of("dynamic_matmul", "b"),
        Action.of("static_qdq", "a"),
        Action.of("static_qdq", "b"),
    ]
    first, second = grouped("quantize", actions)
    assert (first.name, second.name) == ("quantize:b", "quantize:a")
    found = [scheme_of(alternative[0]) for alternative in first.alternatives[1:]]
    assert found == [SCHEMES[0], SCHEMES[1], SCHEMES[3]]
