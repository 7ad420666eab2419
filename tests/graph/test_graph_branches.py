"""An If that always takes one branch, and operator sets inside bodies."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.branches import settle_branches
from edgeopt.graph.check import check
from edgeopt.graph.normalize import normalize
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import Builder, Dimensions, as_graph, if_model, random_feeds

FLOAT = onnx.TensorProto.FLOAT


def _branch(op: str, source: str = "x", *, made: str = "", shape: tuple[int | str, ...] = ("N", 4)):
    name = made or f"{op}_out"
    out = helper.make_tensor_value_info(name, FLOAT, shape)
    return helper.make_graph([helper.make_node(op, [source], [name])], f"{op}_body", [], [out])


def _model(b: Builder, condition: str, **options: int) -> onnx.ModelProto:
    """If(condition) then relu(x) else -x, with `x` [N, 4]."""
    b.node("If", [condition], "y", then_branch=_branch("Relu"), else_branch=_branch("Neg"))
    shape: Dimensions = ("N", 4)
    return b.model([("x", "float32", shape)], [("y", "float32", shape)], **options)


def _operators(graph: ir.Model) -> set[str]:
    return {node.op_type for node in graph.graph.all_nodes()}


def _same(model: onnx.ModelProto, graph: ir.Model) -> None:
    check(graph)
    plain = RuntimeSettings(optimization="off")
    for feed in random_feeds(model, 2):
        one = Session(model.SerializeToString(), plain).run(feed)
        other = Session(to_bytes(graph), plain).run(feed)
        for name, array in one.items():
            assert np.array_equal(array, other[name])


@pytest.mark.parametrize("known", [True, False])
def test_a_constant_condition_leaves_its_branch(known: bool) -> None:
    """The output keeps its name, and the other branch is gone."""
    b = Builder()
    model = _model(b, b.constant("known", np.asarray(known)))
    found = normalize(as_graph(model))
    assert _operators(found) == {"Relu" if known else "Neg"}
    assert [value.name for value in found.graph.outputs] == ["y"]
    _same(model, found)


def test_a_fixed_dimension_decides() -> None:
    """Shape, Gather and Equal of a dimension that the input fixes."""
    b = Builder()
    b.node("Shape", ["x"], "sizes")
    b.node("Gather", ["sizes", b.constant("last", np.asarray(1))], "size")
    model = _model(b, b.node("Equal", ["size", b.constant("four", np.asarray(4))], "four_wide"))
    found = normalize(as_graph(model))
    assert _operators(found) == {"Relu"}
    _same(model, found)


def test_a_rank_decides() -> None:
    """The size of a shape is a rank, which is known however free the dimensions are."""
    b = Builder()
    b.node("Size", [b.node("Shape", ["x"], "sizes")], "rank")
    model = _model(b, b.node("Equal", ["rank", b.constant("three", np.asarray(3))], "is_three"))
    assert _operators(normalize(as_graph(model))) == {"Neg"}


def test_a_free_dimension_decides_nothing() -> None:
    """The If stays where the batch decides."""
    b = Builder()
    b.node("Shape", ["x"], "sizes")
    b.node("Gather", ["sizes", b.constant("first", np.asarray(0))], "size")
    model = _model(b, b.node("Equal", ["size", b.constant("four", np.asarray(4))], "four_long"))
    assert "If" in _operators(normalize(as_graph(model)))


def test_recorded_shapes_of_intermediate_values_decide_nothing() -> None:
    """A file may hold stale shapes: only what follows from the inputs counts."""
    b = Builder()
    b.node("Shape", [b.node("Abs", ["x"], "absolute")], "sizes")
    b.node("Gather", ["sizes", b.constant("first", np.asarray(0))], "size")
    model = _model(b, b.node("Equal", ["size", b.constant("four", np.asarray(4))], "four_long"))
    model.graph.value_info.append(helper.make_tensor_value_info("absolute", FLOAT, (4, 4)))
    assert "If" in _operators(normalize(as_graph(model)))


def test_a_condition_that_is_an_input_stays() -> None:
    """A default of an input that a caller may set is no constant."""
    b = Builder()
    b.constant("known", np.asarray(True))
    model = _model(b, "known")
    model.graph.input.append(helper.make_tensor_value_info("known", onnx.TensorProto.BOOL, ()))
    graph = as_graph(model)
    assert settle_branches(graph) == 0
    assert "If" in _operators(graph)


def _three_outputs(op: str) -> onnx.GraphProto:
    inner = Builder()
    inner.node("Identity", [inner.node(op, ["x"], f"{op}.a")], f"{op}.b")
    inner.node("Identity", [inner.constant(f"{op}.w", np.ones((1, 4), np.float32))], f"{op}.c")
    shapes: dict[str, tuple[int | str, ...]] = {"a": ("N", 4), "b": ("N", 4), "c": (1, 4)}
    infos = [helper.make_tensor_value_info(f"{op}.{n}", FLOAT, s) for n, s in shapes.items()]
    return helper.make_graph(inner.nodes, op, [], infos, inner.initializers)


def test_branches_that_hand_on_what_they_see() -> None:
    """One value as two outputs, and a constant as output of the If."""
    b = Builder()
    sides = [_three_outputs("Relu"), _three_outputs("Neg")]
    b.constant("known", np.asarray(True))
    b.nodes.append(
        helper.make_node(
            "If", ["known"], ["p", "q", "r"], then_branch=sides[0], else_branch=sides[1]
        )
    )
    shape: Dimensions = ("N", 4)
    outputs = [(name, "float32", shape) for name in ("p", "q")]
    model = b.model([("x", "float32", shape)], [*outputs, ("r", "float32", (1, 4))])
    found = normalize(as_graph(model))
    assert "If" not in _operators(found)
    assert [value.name for value in found.graph.outputs] == ["p", "q", "r"]
    _same(model, found)


def test_values_that_only_the_other_branch_read_are_gone() -> None:
    """What a branch that is gone captured has no reader any more."""
    b = Builder()
    b.node("Sin", ["x"], "only_else")
    b.constant("known", np.asarray(True))
    other = _branch("Neg", "only_else")
    b.node("If", ["known"], "y", then_branch=_branch("Relu"), else_branch=other)
    shape: Dimensions = ("N", 4)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)])
    assert _operators(normalize(as_graph(model))) == {"Relu"}


def test_an_if_in_a_branch_that_is_taken() -> None:
    """Both levels are settled, and the constants of the inner one are kept."""
    b, inner = Builder(), Builder(1)
    inner.node("MatMul", ["x", inner.weight("w", 4, 4)], "mm")
    out = [helper.make_tensor_value_info("mm", FLOAT, ("N", 4))]
    deep = helper.make_graph(inner.nodes, "deep", [], out, inner.initializers)
    middle = Builder(2)
    middle.node("If", ["known"], "chosen", then_branch=deep, else_branch=_branch("Neg"))
    out = [helper.make_tensor_value_info("chosen", FLOAT, ("N", 4))]
    then = helper.make_graph(middle.nodes, "middle", [], out)
    b.constant("known", np.asarray(True))
    b.node("If", ["known"], "y", then_branch=then, else_branch=_branch("Abs"))
    shape: Dimensions = ("N", 4)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)])
    found = normalize(as_graph(model))
    assert _operators(found) == {"MatMul"}
    assert "w" in found.graph.initializers
    _same(model, found)


def _old(opset: int) -> onnx.ModelProto:
    """Squeeze, Softmax and ReduceSum in branches, as they were before axes became inputs."""
    b = Builder()
    b.node("ReduceSum", ["x"], "total", keepdims=0)
    b.node("Greater", ["total", b.constant("zero", np.zeros((), np.float32))], "positive")
    info = [helper.make_tensor_value_info(name, FLOAT, ("N", 4)) for name in ("p", "q")]
    then, other = Builder(1), Builder(2)
    then.node("Unsqueeze", ["x"], "wide", axes=[1])
    then.node(
        "ReduceSum", [then.node("Softmax", ["wide"], "soft", axis=2)], "p", axes=[1], keepdims=0
    )
    product = other.node("MatMul", ["x", other.weight("w", 4, 4)], "mm")
    other.node(
        "ReduceMean",
        [other.node("Unsqueeze", [product], "up", axes=[0])],
        "q",
        axes=[0],
        keepdims=0,
    )
    sides = [
        helper.make_graph(side.nodes, name, [], [out], side.initializers)
        for side, name, out in zip((then, other), ("then", "else"), info, strict=True)
    ]
    b.node("If", ["positive"], "y", then_branch=sides[0], else_branch=sides[1])
    shape: Dimensions = ("N", 4)
    return b.model([("x", "float32", shape)], [("y", "float32", shape)], opset=opset)


@pytest.mark.parametrize("opset", [9, 11, 12])
@pytest.mark.parametrize("ceiling", [13, 17, 21])
def test_the_opset_rises_inside_bodies(opset: int, ceiling: int) -> None:
    """Operators of both branches changed since; both compute what they did."""
    model = _old(opset)
    found = normalize(as_graph(model), opset_ceiling=ceiling)
    assert found.opset_imports[""] == ceiling
    check(found)
    for sign in (1, -1):
        feed = {"x": np.asarray(sign * np.arange(1, 9).reshape(2, 4) / 8, np.float32)}
        one = Session(model.SerializeToString(), RuntimeSettings(optimization="off")).run(feed)
        other = Session(to_bytes(found), RuntimeSettings(optimization="off")).run(feed)
        assert np.allclose(one["y"], other["y"], atol=1e-6)


def test_an_if_on_data_stays() -> None:
    """Nothing is settled where the input decides."""
    graph = as_graph(if_model())
    before = to_bytes(graph)
    assert settle_branches(graph) == 0
    assert to_bytes(graph) == before


def test_a_function_of_an_older_opset_is_inlined() -> None:
    """Functions name their own operator sets; what did not change since becomes nodes."""
    b = Builder()
    nodes = [helper.make_node("Relu", ["a"], ["t"]), helper.make_node("Tanh", ["t"], ["b"])]
    older = [helper.make_opsetid("", 12)]
    function = helper.make_function("local", "Old", ["a"], ["b"], nodes, older)
    b.node("Old", ["x"], "y", domain="local")
    shape: Dimensions = ("N", 4)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)], domains=[("local", 1)])
    model.functions.append(function)
    found = normalize(as_graph(model))
    assert _operators(found) == {"Relu", "Tanh"}
    assert not found.functions
    _same(model, found)


def test_a_function_called_in_a_body_is_inlined_and_settled() -> None:
    """An If inside the function, on a constant of its own, is gone as well."""
    known = numpy_helper.from_array(np.asarray(True))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=known),
        helper.make_node(
            "If",
            ["c"],
            ["b"],
            then_branch=_branch("Relu", "a", made="t"),
            else_branch=_branch("Neg", "a", made="e"),
        ),
    ]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Rectify", ["a"], ["b"], nodes, opsets)
    b = Builder()
    b.node("ReduceSum", ["x"], "total", keepdims=0)
    b.node("Greater", ["total", b.constant("zero", np.zeros((), np.float32))], "positive")
    out = helper.make_tensor_value_info("called", FLOAT, ("N", 4))
    call = helper.make_node("Rectify", ["x"], ["called"], domain="local")
    then = helper.make_graph([call], "then", [], [out])
    b.node("If", ["positive"], "y", then_branch=then, else_branch=_branch("Exp"))
    shape: Dimensions = ("N", 4)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)], domains=[("local", 1)])
    model.functions.append(function)
    found = normalize(as_graph(model))
    operators = [node.op_type for node in found.graph.all_nodes()]
    assert operators.count("If") == 1
    assert {"Relu", "Exp"} <= set(operators)
    _same(model, found)
