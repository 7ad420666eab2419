"""Arrays of a graph and its actions: fixed shapes, finite, stable codes."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from edgeopt.core.action import Action
from edgeopt.graph.features import (
    CODES,
    NODE_COLUMNS,
    OPERATORS,
    Limits,
    features,
    operator_code,
    transform_code,
)
from edgeopt.testing import graphs
from edgeopt.testing.random_graphs import networks

ACTIONS = (
    Action.of("fold_batchnorm", "conv1"),
    Action.of("static_qdq", "x", activation="uint8", weight="int8"),
    Action.of("channels_l1", "nowhere", keep=0.5),
    Action.of("whole", "*"),
)
LIMITS = Limits(nodes=8, edges=6, actions=3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=networks())
def test_every_network_fits_the_same_arrays(model: onnx.ModelProto) -> None:
    """Shapes and dtypes are those of any other network; all numbers are finite."""
    found = features(graphs.as_graph(model), ACTIONS)
    other = features(graphs.as_graph(graphs.lstm()), ())
    assert {k: (v.shape, v.dtype) for k, v in found.items()} == {
        k: (v.shape, v.dtype) for k, v in other.items()
    }
    assert {v.dtype.name for v in found.values()} == {"float32", "int32"}
    assert all(np.isfinite(v).all() for v in found.values())
    assert (found["node_op"] > 0).sum() == len(model.graph.node)


def test_rows_and_edges_follow_the_graph() -> None:
    """Node rows are in graph order, edges lead from producer to user."""
    model = graphs.residual()
    found = features(graphs.as_graph(model), ACTIONS)
    codes = [operator_code(node.op_type) for node in model.graph.node]
    assert found["node_op"][:6].tolist() == codes
    edges = {(int(a), int(b)) for a, b in found["edge_index"].T if a != 511}
    assert edges == {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5)}
    column = NODE_COLUMNS.index("macs")
    assert found["node_x"][0, column] == pytest.approx(np.log2(1 + 64 * 8 * 27))
    assert found["node_x"][0, NODE_COLUMNS.index("reads_input")] == 1
    assert found["node_x"][5, NODE_COLUMNS.index("is_output")] == 1


def test_actions_know_their_place() -> None:
    """Anchors are producer and users of the site, counted from 1; unknown sites have none."""
    found = features(graphs.as_graph(graphs.residual()), ACTIONS)
    assert found["action_type"][:4].tolist() == [transform_code(a.transform) for a in ACTIONS]
    assert not found["action_type"][4:].any()
    assert found["action_nodes"][0].tolist() == [2, 3, 0, 0]
    assert found["action_nodes"][1].tolist() == [1, 0, 0, 0]
    assert not found["action_nodes"][2:].any()
    assert found["action_x"][3, -1] == 1


def test_what_is_beyond_the_limits_is_left_out_and_counted() -> None:
    """More nodes, edges or actions than slots: cut, and the numbers are still told."""
    found = features(graphs.as_graph(graphs.conv_chain()), ACTIONS, LIMITS)
    assert found["node_op"].shape == (8,)
    assert found["edge_index"].shape == (2, 6)
    assert found["edge_index"].max() < 8
    assert found["action_type"].shape == (3,)
    assert found["glob"][0] == pytest.approx(np.log2(10))
    assert found["glob"][-1] == 1


def test_codes_are_stable() -> None:
    """Codes of known operators are their place; unknown ones fall into the same bucket always."""
    assert operator_code("Conv") == 1
    assert operator_code("Relu") == OPERATORS.index("Relu") + 1
    assert len(set(OPERATORS)) == len(OPERATORS) < 128
    assert operator_code("Mystery", "acme") == operator_code("Mystery", "acme")
    assert 128 <= operator_code("Mystery", "acme") < CODES
    assert operator_code("Mystery", "acme") == 140
    assert transform_code("static_qdq") == 157


def test_an_empty_graph_has_features() -> None:
    """A graph whose output is its input has no node, and finite arrays."""
    b = graphs.Builder()
    model = b.model([("x", "float32", (2,))], [("x", "float32", (2,))])
    found = features(graphs.as_graph(model), ())
    assert not found["node_op"].any()
    assert all(np.isfinite(v).all() for v in found.values())
