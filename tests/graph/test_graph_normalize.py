"""Normalization: one form for all exporters, the same function, the contract kept."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper, numpy_helper

from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.check import check
from edgeopt.graph.cost import static_cost
from edgeopt.graph.equivalence import compare
from edgeopt.graph.normalize import normalize, notes
from edgeopt.graph.runtime import Session
from edgeopt.graph.structure import structure_digest
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from edgeopt.testing.random_graphs import networks

Build = Callable[[], onnx.ModelProto]
ALL: tuple[Build, ...] = (
    graphs.conv_chain,
    graphs.conv_bn,
    graphs.mobilenet_block,
    graphs.residual,
    graphs.gemm_chain,
    graphs.if_model,
    graphs.hardswish_spelled,
    graphs.segmentation_argmax,
    graphs.lstm,
)


def run(graph: ir.Model, feed: Feed) -> dict[str, np.ndarray]:
    return Session(to_bytes(graph)).run(feed)


def operators(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph.all_nodes()]


@pytest.mark.parametrize("build", ALL)
def test_a_normalised_model_computes_the_same(build: Build) -> None:
    """Equal outputs, the input graph untouched, a second pass changes nothing."""
    model = build()
    graph = graphs.as_graph(model)
    before = to_bytes(graph)
    feeds = graphs.random_feeds(model, 3)
    found = normalize(graph, feed=feeds[0])
    assert to_bytes(graph) == before
    assert compare(graph, found, feeds).ok
    check(found)
    assert structure_digest(normalize(found, feed=feeds[0])) == structure_digest(found)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=networks())
def test_random_networks_compute_the_same(model: onnx.ModelProto) -> None:
    """Whatever the network, normalization keeps its outputs and needs no second pass."""
    feeds = graphs.random_feeds(model, 2)
    graph = graphs.as_graph(model)
    found = normalize(graph, feed=feeds[0])
    assert operators(found).count("Identity") <= len(model.graph.output)
    difference = compare(graph, found, feeds)
    assert difference.ok, difference.reason


@pytest.mark.parametrize("build", ALL)
def test_the_contract_is_kept(build: Build) -> None:
    """Names, order, types and free dimensions of inputs and outputs, metadata, doc strings."""
    model = build()
    model.doc_string = "what it is"
    model.graph.doc_string = "inside"
    model.metadata_props.add(key="character", value="abc")
    found = ir.to_proto(normalize(graphs.as_graph(model), feed=graphs.random_feeds(model)[0]))
    assert list(found.graph.input) == list(model.graph.input)
    assert [o.name for o in found.graph.output] == [o.name for o in model.graph.output]
    for new, old in zip(found.graph.output, model.graph.output, strict=True):
        assert new.type.tensor_type.elem_type == old.type.tensor_type.elem_type
        assert len(new.type.tensor_type.shape.dim) == len(old.type.tensor_type.shape.dim)
    assert found.metadata_props == model.metadata_props
    assert (found.doc_string, found.graph.doc_string) == ("what it is", "inside")
    assert found.producer_name == model.producer_name


def test_every_value_has_a_shape_and_free_dimensions_stay_free() -> None:
    """Shapes are inferred with the batch axis as a symbol."""
    found = normalize(graphs.as_graph(graphs.conv_chain()))
    for node in found.graph:
        shape = node.outputs[0].shape
        assert shape is not None
        assert str(shape[0]) == "N"
        assert node.outputs[0].dtype == ir.DataType.FLOAT


def test_names_become_unique_in_subgraphs_too() -> None:
    """Empty and repeated node names get new ones; names of values in the main graph stay."""
    model = graphs.if_model()
    for attribute in model.graph.node[2].attribute:
        branch = attribute.g
        names = {name: f"same{i}" for i, n in enumerate(branch.node) for name in n.output}
        for node in branch.node:
            node.name = ""
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names[name] for name in node.output]
        branch.output[0].name = names[branch.output[0].name]
    for node in model.graph.node:
        node.name = "node"
    found = normalize(graphs.as_graph(model), feed=graphs.random_feeds(model)[0])
    nodes = [node.name for node in found.graph.all_nodes()]
    values = [v.name for node in found.graph.all_nodes() for v in node.outputs]
    assert len(set(nodes)) == len(nodes) == 7
    assert all(nodes)
    assert len(set(values)) == len(values)
    assert {"total", "positive", "chosen", "y"} <= set(values)
    # The runtime refuses repeated node names, so the model is compared with its well-named twin.
    twin = graphs.as_graph(graphs.if_model())
    assert compare(twin, found, graphs.random_feeds(model, 4)).ok


def with_constants() -> onnx.ModelProto:
    """x * (2 + 1) with Constant nodes of three kinds, behind an Identity, beside a dead node."""
    b = Builder()
    two = numpy_helper.from_array(np.full((4,), 2, np.float32))
    b.nodes.append(helper.make_node("Constant", [], ["two"], value=two))
    b.nodes.append(helper.make_node("Constant", [], ["one"], value_float=1.0))
    b.nodes.append(helper.make_node("Constant", [], ["shape"], value_ints=[-1, 4]))
    b.node("Add", ["two", "one"], "three")
    b.node("Identity", ["three"], "same")
    b.node("Mul", ["x", "same"], "product")
    b.node("Exp", ["product"], "dead")
    b.node("Reshape", ["product", "shape"], "inner")
    b.node("Identity", ["inner"], "y")
    return b.model([("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))])


def test_constants_are_folded_and_dead_nodes_go() -> None:
    """What remains is the work: Mul and Reshape; constants are initializers."""
    model = with_constants()
    found = normalize(graphs.as_graph(model))
    assert operators(found) == ["Mul", "Reshape"]
    folded = found.graph.initializers["three"].const_value
    assert folded is not None
    np.testing.assert_array_equal(folded.numpy(), np.full(4, 3, np.float32))
    assert sorted(found.graph.initializers) == ["shape", "three"]
    assert [value.name for value in found.graph.outputs] == ["y"]


def test_constants_of_the_original_keep_their_names() -> None:
    """Lifting a Constant must not rename a tensor that the caller's graph still holds."""
    graph = graphs.as_graph(with_constants())
    before = to_bytes(graph)
    normalize(graph)
    assert to_bytes(graph) == before


def test_constants_inside_branches_are_folded() -> None:
    """Constant expressions in a branch become initializers of that branch."""
    model = graphs.if_model()
    branch = model.graph.node[2].attribute[1].g
    weight = branch.node[0].input[1]
    branch.node.insert(0, helper.make_node("Neg", [weight], ["negative"]))
    branch.node[1].input[1] = "negative"
    model_graph = graphs.as_graph(model)
    found = normalize(model_graph, feed=graphs.random_feeds(model)[0])
    assert operators(found).count("Neg") == 1
    assert operators(model_graph).count("Neg") == 2
    assert compare(graphs.as_graph(model), found, graphs.random_feeds(model, 4)).ok


def compressed(kind: str) -> onnx.ModelProto:
    """A product whose weight is stored narrow and unpacked on every run."""
    b = Builder()
    generator = np.random.default_rng(0)
    if kind == "float16":
        b.constant("stored", generator.normal(size=(64, 32)).astype(np.float16))
        b.node("Cast", ["stored"], "weight", to=1)
    elif kind == "int8":
        b.constant("stored", generator.integers(-127, 127, (64, 32)).astype(np.int8))
        b.constant("scale", np.full((1, 32), 0.01, np.float32))
        b.node("Cast", ["stored"], "wide", to=1)
        b.node("Mul", ["wide", "scale"], "weight")
    else:
        b.constant("stored", generator.integers(-127, 127, (64, 32)).astype(np.int8))
        b.constant("scale", np.array(0.01, np.float32))
        b.node("DequantizeLinear", ["stored", "scale"], "weight")
    b.node("MatMul", ["x", "weight"], "y")
    return b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 32))])


@pytest.mark.parametrize("kind", ["float16", "int8", "qdq"])
def test_compressed_weights_stay_compressed(kind: str) -> None:
    """Folding a decompression would make the file larger: the chain stays, node by node."""
    model = compressed(kind)
    found = normalize(graphs.as_graph(model))
    assert operators(found) == [node.op_type for node in model.graph.node]
    assert len(to_bytes(found)) < len(model.SerializeToString()) + 600


def test_a_shared_weight_is_not_multiplied_by_folding() -> None:
    """Two large transposes of one weight would make two weights of it: they stay."""
    b = Builder()
    b.weight("w", 64, 64)
    b.node("Transpose", ["w"], "t1", perm=[1, 0])
    b.node("MatMul", ["x", "t1"], "h")
    b.node("MatMul", ["h", "w"], "y")
    model = b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 64))])
    found = normalize(graphs.as_graph(model))
    assert operators(found).count("Transpose") == 1
    assert sorted(found.graph.initializers) == ["w"]


def test_gates_cut_from_one_weight_and_joined_again_are_folded() -> None:
    """Exporters put the gates of an LSTM into order in the graph: the result frees the source."""
    b = Builder()
    b.weight("w", 96, 64)
    for index, (start, end) in enumerate(((0, 32), (64, 96), (32, 64))):
        bounds = [b.constant(f"{r}{index}", np.array([v])) for r, v in (("s", start), ("e", end))]
        b.node("Slice", ["w", *bounds], f"gate{index}")
    b.node("Concat", ["gate0", "gate1", "gate2"], "ordered", axis=0)
    b.node("Gemm", ["x", "ordered"], "y", transB=1)
    model = b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 96))])
    found = normalize(graphs.as_graph(model))
    assert operators(found) == ["Gemm"]
    assert list(found.graph.initializers) == ["ordered"]


def test_a_large_constant_of_shape_stays() -> None:
    """A constant that is larger than what makes it is not written out."""
    b = Builder()
    b.constant("shape", np.array([64, 64], np.int64))
    b.node("ConstantOfShape", ["shape"], "w")
    b.node("MatMul", ["x", "w"], "y")
    model = b.model([("x", "float32", ("N", 64))], [("y", "float32", ("N", 64))])
    assert operators(normalize(graphs.as_graph(model))) == ["ConstantOfShape", "MatMul"]


def test_initializers_leave_the_inputs() -> None:
    """A weight that is listed as an input (old IR versions) is an initializer only."""
    model = graphs.gemm_chain()
    model.graph.input.append(helper.make_tensor_value_info("fc1.b", 1, [16]))
    model.ir_version = 3
    found = normalize(graphs.as_graph(model))
    assert [value.name for value in found.graph.inputs] == ["x"]
    assert found.ir_version >= 8


def test_unnamed_dimensions_get_names_and_are_not_equal() -> None:
    """None, -1 and the `?` that is written twice become dimensions of their own."""
    b = Builder()
    b.node("Relu", ["x"], "y")
    model = b.model(
        [("x", "float32", (None, 3, "?", "?"))], [("y", "float32", (None, 3, "?", "?"))]
    )
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    found = normalize(graphs.as_graph(model), feed={"x": np.zeros((1, 3, 4, 5), np.float32)})
    shape = found.graph.inputs[0].shape
    assert shape is not None
    assert [str(size) for size in shape] == ["x_0", "x_1", "x_2", "x_3"]
    assert run(found, {"x": np.zeros((2, 3, 4, 5), np.float32)})["y"].shape == (2, 3, 4, 5)


def test_functions_are_inlined() -> None:
    """A call of a local function becomes its nodes."""
    body = [
        helper.make_node("Relu", ["a"], ["t"]),
        helper.make_node("Neg", ["t"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Flip", ["a"], ["b"], body, opsets)
    b = Builder()
    b.node("Flip", ["x"], "h", domain="local")
    b.node("Flip", ["h"], "y", domain="local")
    io = [("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))]
    model = b.model(*io, domains=[("local", 1)])
    model.functions.append(function)
    found = normalize(graphs.as_graph(model))
    assert operators(found) == ["Relu", "Neg", "Relu", "Neg"]
    assert not found.functions
    assert compare(graphs.as_graph(model), found, graphs.random_feeds(model)).ok


@pytest.mark.parametrize("written_for", [17, 18])
def test_a_domain_that_only_a_function_imports(written_for: int) -> None:
    """It is imported by the model that has the function's nodes, and the runtime runs that."""
    body = [
        helper.make_node("Neg", ["a"], ["t"]),
        helper.make_node("Gelu", ["t"], ["b"], domain="com.microsoft"),
    ]
    opsets = [helper.make_opsetid("", written_for), helper.make_opsetid("com.microsoft", 1)]
    b = Builder()
    b.node("Soft", ["x"], "y", domain="local")
    io = [("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))]
    model = b.model(*io, opset=18, domains=[("local", 1)])
    model.functions.append(helper.make_function("local", "Soft", ["a"], ["b"], body, opsets))
    found = normalize(graphs.as_graph(model))
    assert operators(found) == ["Neg", "Gelu"]
    assert found.opset_imports["com.microsoft"] == 1
    assert compare(graphs.as_graph(model), found, graphs.random_feeds(model)).ok


def test_what_the_converter_cannot_infer_keeps_its_opset() -> None:
    """An operator of a domain that nobody imports: the opset stays, with a note and no trace."""
    b = Builder()
    b.node("Gelu", ["x"], "y", domain="com.microsoft")
    shape = (2, 4)
    graph = graphs.as_graph(b.model([("x", "float32", shape)], [("y", "float32", shape)], opset=17))
    graph.opset_imports.pop("com.microsoft", None)
    found = normalize(graph)
    assert found.opset_imports[""] == 17
    assert "opset stays 17" in notes(found)[0]


def test_functions_in_a_circle_are_refused() -> None:
    """Two functions that call each other are a ModelError."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = [
        helper.make_function(
            "local", name, ["a"], ["b"],
            [helper.make_node(other, ["a"], ["b"], domain="local")], opsets,
        )
        for name, other in (("F", "G"), ("G", "F"))
    ]  # fmt: skip
    b = Builder()
    b.node("F", ["x"], "y", domain="local")
    io = [("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))]
    model = b.model(*io, domains=[("local", 1)])
    model.functions.extend(functions)
    with pytest.raises(ModelError, match="circle"):
        normalize(graphs.as_graph(model))


def test_an_echoed_input_and_a_constant_output_stay() -> None:
    """Outputs that are an input, or a constant, keep the node that produces them."""
    b = Builder()
    b.node("Identity", ["x"], "echo")
    b.constant("c", np.ones(3, np.float32))
    b.node("Identity", ["c"], "constant")
    b.node("Relu", ["x"], "y")
    shape = ("N", 4)
    model = b.model(
        [("x", "float32", shape)],
        [("echo", "float32", shape), ("constant", "float32", (3,)), ("y", "float32", shape)],
    )
    found = normalize(graphs.as_graph(model))
    assert operators(found) == ["Identity", "Identity", "Relu"]
    assert compare(graphs.as_graph(model), found, graphs.random_feeds(model)).ok


def test_an_unsorted_graph_is_normalised(tmp_path: Path) -> None:
    """Also a graph object whose nodes stand in the wrong order."""
    model = graphs.residual()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    found = normalize(graphs.as_graph(model))
    assert next(iter(found.graph)).outputs[0].name == "stem"


def test_strings_pass_through() -> None:
    """A model of strings is normalised, costed and compared like any other."""
    b = Builder()
    b.constant("suffix", np.array(["!"], dtype=object))
    b.node("StringConcat", ["x", "suffix"], "y")
    model = b.model([("x", "string", ("N",))], [("y", "string", ("N",))], opset=20)
    graph = graphs.as_graph(model)
    feed = {"x": np.array(["a", "b"], dtype=object)}
    found = normalize(graph, feed=feed)
    assert run(found, feed)["y"].tolist() == ["a!", "b!"]
    assert compare(graph, found, [feed]).ok
    assert static_cost(found)["activation_bytes"] == 0


def _chunk(batch: int | str) -> onnx.ModelProto:
    """The second half of the channels, its places computed as torch's tracing exporter does."""
    b = Builder()
    for name, value in (("one", 1), ("two", 2)):
        b.constant(name, np.array(value, np.int64))
    b.constant("axis", np.array([1], np.int64))
    b.node("Gather", [b.node("Shape", ["x"], "sizes"), "one"], "channels")
    b.node("Div", [b.node("Add", ["channels", "one"], "more"), "two"], "half")
    for name, count in (("start", "one"), ("end", "two")):
        b.node("Reshape", [b.node("Mul", ["half", count], f"{name}.0"), "axis"], name)
    b.node("Slice", ["x", "start", "end", "axis"], "y")
    shape = (batch, 6, 4)
    return b.model([("x", "float32", shape)], [("y", "float32", (batch, 3, 4))], opset=17)


@pytest.mark.parametrize("batch", [2, "N"])
def test_arithmetic_of_known_sizes_is_folded(batch: int | str) -> None:
    """A chunk becomes one Slice of constant places, also where the batch is free."""
    model = _chunk(batch)
    graph = normalize(graphs.as_graph(model))
    assert [node.op_type for node in graph.graph] == ["Slice"]
    feed = graphs.random_feeds(model, 1)[0]
    given = Session(model.SerializeToString()).run(feed)["y"]
    np.testing.assert_array_equal(Session(to_bytes(graph)).run(feed)["y"], given)


def test_free_and_declared_sizes_are_not_folded() -> None:
    """A free size is asked for at run time; what the file declares of an output is no proof."""
    b = Builder()
    b.node("Shape", ["x"], "sizes")
    b.node("NonZero", ["x"], "places")
    b.node("Shape", ["places"], "found")
    outputs = [("sizes", "int64", (2,)), ("places", "int64", (2, 5)), ("found", "int64", (2,))]
    model = b.model([("x", "float32", ("N", 3))], outputs, opset=17)
    graph = normalize(graphs.as_graph(model))
    assert [node.op_type for node in graph.graph].count("Shape") == 2


def test_constants_are_read_out_of_their_messages() -> None:
    """A look at a constant in a message would copy it: large ones are arrays, and equal."""
    weight = np.arange(4096, dtype=np.float32).reshape(64, 64)
    b = Builder()
    b.node("MatMul", ["x", b.constant("w", weight)], "y")
    shape = ("N", 64)
    model = b.model([("x", "float32", shape)], [("y", "float32", shape)])
    held = normalize(graphs.as_graph(model)).graph.initializers["w"].const_value
    assert held is not None
    assert held.numpy() is held.numpy()
    assert np.array_equal(held.numpy(), weight)
