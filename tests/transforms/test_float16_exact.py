"""What half precision must not touch: counts, types that an attribute says, sequences, factors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import checker

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.check import check
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.store.artifacts import ArtifactStore
from edgeopt.targets.profiles import load_profile
from edgeopt.testing.graphs import Builder, random_feeds
from edgeopt.testing.quantize_exam import at_every_site, evidence_of, sqnr_db
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.base import Offer
from edgeopt.transforms.emulate.half import out_of_half, sentences
from edgeopt.transforms.stages import transform_of
from tests.transforms.test_float16 import in_half, nodes_in

TENSORRT = Offer(profile=load_profile("jetson-orin-nano").on("TensorrtExecutionProvider"))


def same(model: onnx.ModelProto, made: ir.Model, feed: Feed, name: str = "y") -> None:
    """Shapes at every level as in float32, and values to half precision's digits."""
    plain = RuntimeSettings(optimization="off")
    wanted = Session(model.SerializeToString(), plain).run(feed)[name]
    for level in ("off", "all"):
        found = Session(to_bytes(made), RuntimeSettings(optimization=level)).run(feed)[name]
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def indices() -> onnx.ModelProto:
    """The best of 6000 classes, as a float."""
    b = Builder()
    b.node("MatMul", ["x", b.weight("w", 8, 6000)], "logits")
    b.node("Cast", [b.node("ArgMax", ["logits"], "best", axis=1, keepdims=0)], "y", to=1)
    return b.model([("x", "float32", (5, 8))], [("y", "float32", (5,))])


def test_indices_as_floats(tmp_path: Path) -> None:
    """Integers beyond 2048 leave the model as they are; the product before them is half."""
    model = indices()
    made = in_half(model, tmp_path)
    assert nodes_in(made, ir.DataType.FLOAT16) == {"MatMul"}
    last = made.graph.outputs[0].producer()
    assert last is not None
    assert last.inputs[0] is not None
    assert last.inputs[0].dtype is ir.DataType.INT64
    evidence = evidence_of(model, ArtifactStore(tmp_path))
    found = out_of_half(opened(model), evidence)
    assert [(one.name, one.problem) for one in found] == [("y", "digits")]
    assert "has all integers to 2048 only" in sentences(found, "there")[0]


def half_length(factor: float, rounded: str = "Floor") -> onnx.ModelProto:
    """Relu, then a slice whose end is the length times a factor, computed in floats."""
    b = Builder()
    b.node("Relu", ["x"], "r")
    b.node("Gather", [b.node("Shape", ["r"], "shape"), b.constant("one", np.array([1]))], "n")
    b.node("Cast", ["n"], "length", to=1)
    b.node("Mul", ["length", b.constant("k", np.array(factor, np.float32))], "part")
    end = "part"
    if rounded:
        end = b.node(rounded, ["part"], "rounded")
    b.node("Cast", [end], "end", to=7)
    b.node("Slice", ["r", b.constant("zero", np.array([0])), "end", "one"], "z")
    b.node("Relu", ["z"], "y")
    return b.model([("x", "float32", (1, "L"))], [("y", "float32", (1, "K"))])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    length=st.integers(1, 9000),
    factor=st.sampled_from([0.1, 0.3, 0.5, 1 / 3, 0.7]),
    rounded=st.sampled_from(["", "Floor", "Ceil", "Round"]),
)
def test_lengths_in_floats(
    tmp_path_factory: pytest.TempPathFactory, length: int, factor: float, rounded: str
) -> None:
    """A length that arithmetic on floats makes is the same, whatever length calibration saw."""
    model = half_length(factor, rounded)
    calibrated = [{"x": np.ones((1, 16), np.float32)}]
    made = in_half(model, tmp_path_factory.mktemp("half"), feeds=calibrated)
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Relu", "Slice"}
    feed = {"x": np.linspace(-1, 1, length, dtype=np.float32)[None]}
    same(model, made, feed)


@pytest.mark.parametrize("seen", [600, 3000, 20000])
def test_positions_behind_many(seen: int, tmp_path: Path) -> None:
    """An angle is taken from float positions, however small what stands between has become."""
    b = Builder()
    b.node("Cast", ["i"], "position", to=1)
    b.node("Div", ["position", b.constant("d", np.array(64, np.float32))], "turns")
    b.node("Sin", ["turns"], "angle")
    b.node("MatMul", ["angle", b.weight("w", 4, 4)], "m")
    b.node("Add", ["m", "x"], "y")
    shapes = [("i", "int64", (1, 4)), ("x", "float32", (1, 4))]
    model = b.model(shapes, [("y", "float32", (1, 4))])
    x = np.ones((1, 4), np.float32)
    feed = {"i": np.array([[0, 7, seen // 2, seen]]), "x": x}
    made = in_half(model, tmp_path, feeds=[feed])
    assert nodes_in(made, ir.DataType.FLOAT) == {"Div", "Sin"}
    assert nodes_in(made, ir.DataType.FLOAT16) == {"MatMul", "Add"}


def test_few_are_no_reason(tmp_path: Path) -> None:
    """A byte image and a mask are integers as well, and all of them fit."""
    b = Builder()
    b.node("Cast", ["i"], "image", to=1)
    b.node("Mul", ["image", b.constant("s", np.array(1 / 255, np.float32))], "unit")
    b.conv("unit", "y", (3, 4))
    model = b.model([("i", "uint8", (1, 3, 6, 6))], [("y", "float32", (1, 4, 6, 6))])
    rows = np.arange(108, dtype=np.uint8).reshape(1, 3, 6, 6) * 2
    made = in_half(model, tmp_path, feeds=[{"i": rows}])
    assert nodes_in(made, ir.DataType.FLOAT) == set()


def test_scales_of_a_resize(tmp_path: Path) -> None:
    """A ratio of two sizes that a Resize reads decides on a size too."""
    b = Builder()
    for name in ("x", "z"):
        b.node("Shape", [name], f"{name}.shape")
        b.node("Cast", [f"{name}.shape"], f"{name}.size", to=1)
    b.node("Div", ["z.size", "x.size"], "scales")
    b.node("Resize", [b.node("Relu", ["x"], "r"), "", "scales"], "y", mode="nearest")
    inputs = [("x", "float32", (1, 1, "H", "W")), ("z", "float32", (1, 1, "P", "Q"))]
    model = b.model(inputs, [("y", "float32", (1, 1, "S", "T"))])
    sizes = {"x": (1, 1, 30, 29), "z": (1, 1, 47, 101)}
    feed = {name: np.ones(size, np.float32) for name, size in sizes.items()}
    made = in_half(model, tmp_path, feeds=[feed])
    assert nodes_in(made, ir.DataType.FLOAT) == {"Div"}
    assert nodes_in(made, ir.DataType.FLOAT16) == {"Relu", "Resize"}
    same(model, made, feed)


def window(operator: str) -> Callable[[], onnx.ModelProto]:
    """A signal times a window of its length."""

    def made() -> onnx.ModelProto:
        b = Builder()
        b.node("Gather", [b.node("Shape", ["x"], "s"), b.constant("one", np.array(1))], "n")
        b.node("Mul", ["x", b.node(operator, ["n"], "w")], "y")
        return b.model([("x", "float32", (2, "L"))], [("y", "float32", (2, "L"))])

    return made


def mel() -> onnx.ModelProto:
    """A product with a matrix of mel weights."""
    b = Builder()
    for name, value in (("bins", 8), ("length", 16), ("rate", 8000)):
        b.constant(name, np.array(value))
    for name, value in (("low", 0.0), ("high", 4000.0)):
        b.constant(name, np.array(value, np.float32))
    b.node("MelWeightMatrix", ["bins", "length", "rate", "low", "high"], "w")
    b.node("MatMul", ["x", "w"], "y")
    return b.model([("x", "float32", (2, 9))], [("y", "float32", (2, 8))])


def named_type() -> onnx.ModelProto:
    """A weight whose DequantizeLinear says float32."""
    b = Builder()
    b.constant("c", np.arange(-6, 6, dtype=np.int8).reshape(4, 3))
    b.constant("s", np.array(0.1, np.float32))
    b.node("DequantizeLinear", ["c", "s"], "d", output_dtype=onnx.TensorProto.FLOAT)
    b.node("MatMul", [b.node("Relu", ["x"], "r"), "d"], "y")
    model = b.model([("x", "float32", (2, 4))], [("y", "float32", (2, 3))], opset=23)
    model.ir_version = 11
    return model


def split_sequence() -> onnx.ModelProto:
    """One element of a sequence."""
    b = Builder()
    b.node("SplitToSequence", [b.node("Relu", ["x"], "r")], "q", axis=0)
    b.node("SequenceAt", ["q", b.constant("i", np.array(1))], "z")
    b.node("Relu", ["z"], "y")
    return b.model([("x", "float32", (2, 4))], [("y", "float32", (1, 4))])


def built_sequence() -> onnx.ModelProto:
    """Two values in a sequence, and back."""
    b = Builder()
    b.node("SequenceConstruct", [b.node("Relu", ["x"], "r"), b.node("Tanh", ["x"], "t")], "q")
    b.node("ConcatFromSequence", ["q"], "z", axis=0)
    b.node("Relu", ["z"], "y")
    return b.model([("x", "float32", (2, 4))], [("y", "float32", (4, 4))])


@pytest.mark.parametrize(
    ("net", "halves"),
    [
        *((window(f"{name}Window"), {"Mul"}) for name in ("Hann", "Hamming", "Blackman")),
        (mel, {"MatMul"}),
        (named_type, {"Relu", "MatMul"}),
        (split_sequence, {"Relu"}),
        (built_sequence, {"Relu", "Tanh"}),
    ],
)
def test_types_that_stay(
    net: Callable[[], onnx.ModelProto], halves: set[str], tmp_path: Path
) -> None:
    """An attribute or a sequence says float32: those stay, what is around them becomes half."""
    model = net()
    feed = {
        info.name: np.linspace(
            -2, 2, 2 * (dims := info.type.tensor_type.shape.dim[1].dim_value or 16), dtype="f4"
        ).reshape(2, dims)
        for info in model.graph.input
    }
    made = in_half(model, tmp_path, feeds=[feed])
    checker.check_model(  # pyright: ignore[reportUnknownMemberType]
        ir.to_proto(made), full_check=True
    )
    assert nodes_in(made, ir.DataType.FLOAT16) - {"ConcatFromSequence"} == halves
    same(model, made, feed)


@pytest.mark.parametrize("beta", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("shape", [(6,), (1, 6), ()])
def test_biases_keep_their_factor(beta: float, shape: tuple[int, ...], tmp_path: Path) -> None:
    """A bias behind an integer Gemm is what the Gemm added: beta times its constant."""
    b = Builder()
    bias = b.constant("b", np.full(shape, 7.0, np.float32))
    b.node("Gemm", ["x", b.weight("w", 8, 6), bias], "g", alpha=2.0, beta=beta)
    b.node("Relu", ["g"], "y")
    model = b.model([("x", "float32", (5, 8))], [("y", "float32", (5, 6))], opset=21)
    model.ir_version = 10
    graph, evidence = opened(model), evidence_of(model, ArtifactStore(tmp_path))
    symmetric, half = (transform_of(name)[1] for name in ("symmetric_qdq", "float16"))
    integer = at_every_site("symmetric_qdq", graph, evidence, symmetric.sites(graph, TENSORRT))
    editor = Editor(integer)
    assert half.apply(editor, Action.of("float16", "*"), evidence)
    check(editor.model)
    assert nodes_in(editor.model, ir.DataType.FLOAT16) >= {"Gemm", "Add"}
    feeds = random_feeds(model, 2)
    assert sqnr_db(model.SerializeToString(), to_bytes(editor.model), feeds) > 25
