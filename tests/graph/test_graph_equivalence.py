"""Comparing graphs: the runtime's own spread as unit, discrete outputs by their operands."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from edgeopt.graph.equivalence import FLOOR, Reference, Tolerance, compare, tolerance_for
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder


def shifted(model: onnx.ModelProto, name: str, amount: float, index: int = 0) -> ir.Model:
    """The model with one number of one weight changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensor = next(t for t in copy.graph.initializer if t.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array.flat[index] += amount
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    return graphs.as_graph(copy)


@pytest.mark.parametrize(
    "build",
    [graphs.conv_bn, graphs.mobilenet_block, graphs.if_model, graphs.segmentation_argmax],
)
def test_a_graph_equals_itself(build) -> None:
    """Optimizations on against off is within the tolerance that is made from it."""
    graph = graphs.as_graph(build())
    found = compare(graph, graph, graphs.random_feeds(build(), 3))
    assert found.ok
    assert found.worst <= 1


@pytest.mark.parametrize(
    "build", [graphs.conv_bn, graphs.gemm_chain, graphs.lstm, graphs.segmentation_argmax]
)
def test_other_weights_are_not_equal(build) -> None:
    """Another seed is told apart, with the place and a reason."""
    found = compare(
        graphs.as_graph(build()), graphs.as_graph(build(seed=1)), graphs.random_feeds(build(), 2)
    )
    assert not found.ok
    assert found.worst > 1
    assert found.where
    assert found.reason


def test_the_tolerance_is_of_the_values_size() -> None:
    """The floor is relative to the largest magnitude, so pixels are compared as pixels."""
    b = Builder()
    b.constant("factor", np.array(1000, np.float32))
    b.node("Mul", ["x", "factor"], "y")
    model = b.model([("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))])
    feeds = graphs.random_feeds(model)
    tolerance = tolerance_for(graphs.as_graph(model), feeds)
    peak = 1000 * float(np.abs(feeds[0]["x"]).max())
    assert tolerance.absolute["y"] == pytest.approx(FLOOR * peak, rel=1e-5)


@pytest.mark.parametrize(("amount", "equal"), [(1e-6, True), (1e-2, False)])
def test_a_small_change_passes_and_a_large_one_does_not(amount: float, equal: bool) -> None:
    """A bias that moves by less than the tolerance is equal, by more is not."""
    model = graphs.gemm_chain()
    found = compare(
        graphs.as_graph(model), shifted(model, "logits.b", amount), graphs.random_feeds(model, 2)
    )
    assert found.ok is equal


def test_a_given_tolerance_counts() -> None:
    """The caller may allow more."""
    model = graphs.gemm_chain()
    other = shifted(model, "logits.b", 0.01)
    feeds = graphs.random_feeds(model)
    assert compare(graphs.as_graph(model), other, feeds, Tolerance(absolute={"logits": 0.1})).ok


def tied() -> onnx.ModelProto:
    """ArgMax over x + b where classes 0 and 1 tie exactly."""
    b = Builder()
    b.constant("b", np.array([[1, 1, 0]], np.float32))
    b.node("Add", ["x", "b"], "scores")
    b.node("ArgMax", ["scores"], "class", axis=1, keepdims=0)
    return b.model([("x", "float32", ("N", 3))], [("class", "int64", ("N",))])


def test_a_flip_at_a_tie_is_forgiven() -> None:
    """Two classes within the margin may change places."""
    model = tied()
    feeds = [{"x": np.zeros((2, 3), np.float32)}]
    found = compare(graphs.as_graph(model), shifted(model, "b", 1e-5, 1), feeds)
    assert found.ok


def test_a_flip_without_a_tie_is_not() -> None:
    """The same change where classes do not tie is caught by the operand."""
    model = tied()
    feeds = [{"x": np.array([[0.5, 0, 0]], np.float32)}]
    found = compare(graphs.as_graph(model), shifted(model, "b", 1.0, 1), feeds)
    assert not found.ok


def test_an_operand_that_moves_is_found_although_no_class_flips() -> None:
    """Equal masks hide nothing: the scores are compared."""
    model = graphs.segmentation_argmax()
    found = compare(
        graphs.as_graph(model), shifted(model, "scores.b", 1e-3), graphs.random_feeds(model)
    )
    assert not found.ok
    assert found.where == "scores"


def test_flips_are_judged_where_the_operand_has_another_name() -> None:
    """Without the operand in the candidate, flips are still forgiven only at ties."""
    model = tied()
    for amount, x, equal in ((1e-5, 0.0, True), (1.0, 0.5, False)):
        renamed = onnx.ModelProto()
        renamed.CopyFrom(model)
        renamed.graph.node[0].output[0] = renamed.graph.node[1].input[0] = "other"
        feeds = [{"x": np.array([[x, 0, 0]], np.float32)}]
        found = compare(graphs.as_graph(model), shifted(renamed, "b", amount, 1), feeds)
        assert found.ok is equal


def test_what_follows_a_comparison_may_jump_only_at_its_tie() -> None:
    """A branch that flips is forgiven where the sum is at zero, and only there."""
    b = Builder()
    b.constant("limit", np.zeros((), np.float32))
    b.constant("b", np.zeros((1, 1), np.float32))
    b.constant("low", np.full((), -5, np.float32))
    b.node("Add", ["x", "b"], "moved")
    b.node("Greater", ["moved", "limit"], "positive")
    b.node("Where", ["positive", "moved", "low"], "y")
    model = b.model([("x", "float32", ("N", 1))], [("y", "float32", ("N", 1))])
    other = shifted(model, "b", 1e-5)
    for x, equal in (([[0.0], [1.0]], True), ([[0.5], [1.0]], True)):
        assert compare(graphs.as_graph(model), other, [{"x": np.array(x, np.float32)}]).ok is equal
    far = shifted(model, "b", 1.0)
    assert not compare(graphs.as_graph(model), far, [{"x": np.array([[-0.5]], np.float32)}]).ok


def logarithm(spelling: str) -> onnx.ModelProto:
    """log(x), where the other spellings avoid or move the NaN."""
    b = Builder()
    value = b.node("Abs", ["x"], "a") if spelling == "abs" else "x"
    b.node("Log", [value], "y")
    return b.model([("x", "float32", ("N",))], [("y", "float32", ("N",))])


def test_nan_and_infinity_must_stand_at_the_same_places() -> None:
    """NaN equals NaN, infinity equals infinity of the same sign; nothing else does."""
    x = np.array([1.0, 0.0, -1.0], np.float32)
    same = graphs.as_graph(logarithm("plain"))
    assert compare(same, graphs.as_graph(logarithm("plain")), [{"x": x}]).ok
    found = compare(same, graphs.as_graph(logarithm("abs")), [{"x": x}])
    assert not found.ok
    assert "NaN" in found.reason


def test_integers_are_equal_or_not() -> None:
    """Outputs that are integers from integers have no tolerance."""

    def model(step: int) -> ir.Model:
        b = Builder()
        b.constant("step", np.array(step, np.int64))
        b.node("Add", ["x", "step"], "y")
        return graphs.as_graph(b.model([("x", "int64", ("N",))], [("y", "int64", ("N",))]))

    feeds = [{"x": np.arange(3)}]
    assert compare(model(1), model(1), feeds).ok
    assert "3 of 3 elements" in compare(model(1), model(2), feeds).reason


def test_shapes_dtypes_and_missing_outputs_differ() -> None:
    """Another shape, or an output that is gone, is a reason of its own."""
    model = graphs.gemm_chain()
    feeds = graphs.random_feeds(model)
    wide = graphs.as_graph(graphs.gemm_chain((6, 16, 12, 5)))
    assert "instead of" in compare(graphs.as_graph(model), wide, feeds).reason
    gone = graphs.as_graph(model)
    gone.graph.outputs[0].name = "other"
    assert "gone" in compare(graphs.as_graph(model), gone, feeds).reason


def test_a_candidate_that_does_not_run_is_a_failure() -> None:
    """A broken candidate is not a difference but a RuntimeFailure."""
    model = graphs.gemm_chain()
    reference = Reference.of(graphs.as_graph(model), graphs.random_feeds(model))
    model.graph.node[0].op_type = "Relux"
    with pytest.raises(RuntimeFailure):
        reference.compare(graphs.as_graph(model))


def test_sequences_are_compared_item_by_item() -> None:
    """Outputs that are lists of arrays: equal to themselves, and not to other items."""

    def model(first: str, second: str) -> ir.Model:
        b = Builder()
        b.node("Neg", ["x"], "n")
        b.node("SequenceConstruct", [first, second], "y")
        made = b.model([("x", "float32", ("N",))], [("y", "float32", ("N",))])
        elem = onnx.helper.make_tensor_type_proto(1, ("N",))
        made.graph.output[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(elem))
        return graphs.as_graph(made)

    feeds = [{"x": np.arange(1, 4, dtype=np.float32)}]
    assert compare(model("x", "n"), model("x", "n"), feeds).ok
    assert "item 0" in compare(model("x", "n"), model("n", "x"), feeds).where
