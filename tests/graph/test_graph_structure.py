"""Digests of structure and weights: what they ignore, and what they tell apart."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.random_graphs import disguised, networks

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def digest(model: onnx.ModelProto) -> str:
    return structure_digest(graphs.as_graph(model))


def branch_of(model: onnx.ModelProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in model.graph.node[2].attribute if a.name == name)


@QUICK
@given(model=networks(), seed=st.integers(0, 1000))
def test_names_and_order_do_not_matter(model: onnx.ModelProto, seed: int) -> None:
    """Random new names and another order of nodes leave both digests as they are."""
    other = disguised(model, seed)
    assert digest(other) == digest(model)
    assert weights_digest(graphs.as_graph(other)) == weights_digest(graphs.as_graph(model))


@QUICK
@given(model=networks(), data=st.data())
def test_another_operator_matters(model: onnx.ModelProto, data: st.DataObject) -> None:
    """Changing one operator that outputs depend on changes the digest."""
    before = digest(model)
    node = data.draw(st.sampled_from(list(model.graph.node)))
    node.CopyFrom(helper.make_node("Elu", [node.input[0]], list(node.output), alpha=0.25))
    assert digest(model) != before


def test_names_in_subgraphs_do_not_matter() -> None:
    """Renaming the values of a branch leaves the digest."""
    model = graphs.if_model()
    before = digest(model)
    branch = branch_of(model, "then_branch")
    branch.node[0].output[0] = branch.output[0].name = "renamed"
    branch.node[0].input[1] = branch.initializer[0].name = "other.w"
    assert digest(model) == before


def test_operators_in_subgraphs_matter() -> None:
    """A change inside a branch changes the digest."""
    model = graphs.if_model()
    before = digest(model)
    branch_of(model, "else_branch").node[1].op_type = "Abs"
    assert digest(model) != before


@pytest.mark.parametrize("build", [graphs.conv_chain, graphs.if_model, graphs.lstm])
def test_retrained_weights_keep_the_structure(build) -> None:
    """Another seed: the same structure, other weights."""
    first, second = (graphs.as_graph(build(seed=seed)) for seed in (0, 1))
    assert structure_digest(first) == structure_digest(second)
    assert weights_digest(first) != weights_digest(second)


def test_shapes_of_weights_matter() -> None:
    """Another width is another structure."""
    assert digest(graphs.conv_chain((3, 8, 12, 4))) != digest(graphs.conv_chain((3, 8, 13, 4)))


def test_defaults_are_dropped() -> None:
    """Spelling a default out, also those that the schema only describes, changes nothing."""
    model = graphs.conv_chain()
    before = digest(model)
    node = model.graph.node[0]
    node.attribute.extend(
        [helper.make_attribute("auto_pad", "NOTSET"), helper.make_attribute("dilations", [1, 1])]
    )
    kept = [a for a in node.attribute if a.name not in {"group", "kernel_shape"}]
    del node.attribute[:]
    node.attribute.extend(kept)
    assert digest(model) == before


def test_pads_matter() -> None:
    """An attribute that is no default counts."""
    model = graphs.conv_chain()
    before = digest(model)
    pads = next(a for a in model.graph.node[2].attribute if a.name == "pads")
    pads.ints[:] = [0, 0, 2, 2]
    assert digest(model) != before


def test_a_shared_value_is_not_two_copies() -> None:
    """Add(a, a) beside Relu(b) is not Add(a, b) beside Relu(a), for equal a and b."""

    def model(left: str, right: str, other: str) -> onnx.ModelProto:
        b = Builder()
        for name in ("a", "b"):
            b.conv("x", name, (4, 4), kernel=1, bias=False)
        b.node("Add", [left, right], "y")
        b.node("Relu", [other], "z")
        shape = ("N", 4, 6, 6)
        return b.model(
            [("x", "float32", shape)], [("y", "float32", shape), ("z", "float32", shape)]
        )

    assert digest(model("a", "a", "b")) != digest(model("a", "b", "a"))


def test_a_shared_weight_is_not_two_weights() -> None:
    """Two layers with one weight differ from two layers with a weight each."""

    def model(*, shared: bool) -> onnx.ModelProto:
        b = Builder()
        b.weight("w", 4, 4)
        b.weight("v", 4, 4)
        b.node("MatMul", ["x", "w"], "h")
        b.node("MatMul", ["h", "w" if shared else "v"], "y")
        if shared:
            b.initializers.pop()
        return b.model([("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))])

    assert digest(model(shared=True)) != digest(model(shared=False))


def test_integers_that_shape_the_graph_count_by_value() -> None:
    """A Reshape to another target is another structure although dtype and shape are equal."""

    def model(target: list[int]) -> onnx.ModelProto:
        b = Builder()
        b.constant("target", np.array(target, np.int64))
        b.node("Reshape", ["x", "target"], "y")
        return b.model([("x", "float32", (4, 6))], [("y", "float32", None)])  # type: ignore[list-item]

    assert digest(model([6, 4])) != digest(model([12, 2]))


def test_a_constant_node_is_an_initializer() -> None:
    """The same constant as a node or as an initializer has one digest, up to nothing else."""
    b = Builder()
    value = b.constant("target", np.array([6, 4], np.int64))
    b.node("Reshape", ["x", value], "y")
    first = b.model([("x", "float32", (4, 6))], [("y", "float32", (6, 4))])
    second = onnx.ModelProto()
    second.CopyFrom(first)
    tensor = second.graph.initializer.pop()
    second.graph.node.insert(0, helper.make_node("Constant", [], ["target"], value=tensor))
    assert digest(first) == digest(second)


def test_names_of_inputs_and_outputs_matter() -> None:
    """The contract of the model is part of its structure."""
    model = graphs.gemm_chain()
    before = digest(model)
    model.graph.node[-1].output[0] = model.graph.output[0].name = "other"
    assert digest(model) != before


def test_another_weight_changes_only_the_weights() -> None:
    """One changed number is seen by the digest of the weights."""
    model = graphs.gemm_chain()
    graph = graphs.as_graph(model)
    before = structure_digest(graph), weights_digest(graph)
    tensor = model.graph.initializer[0]
    array = np.frombuffer(tensor.raw_data, np.float32).copy()
    array[3] += 1
    tensor.raw_data = array.tobytes()
    after = graphs.as_graph(model)
    assert structure_digest(after) == before[0]
    assert weights_digest(after) != before[1]
