"""Asked against ran: read from what the runtime really executed."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.lowered import Lowered
from edgeopt.graph.lowered import lowered
from edgeopt.graph.placement_reasons import unasked
from edgeopt.graph.runtime import profile_nodes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder


class Quantized(Builder):
    """A builder of graphs in QDQ form, with invented scales."""

    def pair(self, source: str, output: str, dtype: str = "uint8") -> str:
        """Quantize and dequantize a value."""
        self.constant(f"{output}.scale", np.array(0.05, np.float32))
        self.constant(f"{output}.zero", np.array(128 if dtype == "uint8" else 0, dtype))
        ends = [f"{output}.scale", f"{output}.zero"]
        self.node("QuantizeLinear", [source, *ends], f"{output}.q")
        return self.node("DequantizeLinear", [f"{output}.q", *ends], output)

    def stored(self, output: str, *shape: int) -> str:
        """An int8 weight behind DequantizeLinear."""
        generator = np.random.default_rng(1)
        self.constant(f"{output}.q", generator.integers(-127, 127, shape).astype(np.int8))
        self.constant(f"{output}.scale", np.full(shape[0], 0.01, np.float32))
        self.constant(f"{output}.zero", np.zeros(shape[0], np.int8))
        names = [f"{output}.q", f"{output}.scale", f"{output}.zero"]
        return self.node("DequantizeLinear", names, output, axis=0)

    def conv8(self, source: str, output: str, given: int, made: int) -> str:
        """A 3x3 convolution with an int8 weight."""
        weight = self.stored(f"{output}.w", made, given, 3, 3)
        return self.node("Conv", [source, weight], output, pads=[1] * 4, kernel_shape=[3, 3])


SHAPE = ("N", 4, 8, 8)


def two_convolutions(kind: str) -> onnx.ModelProto:
    """Two quantized convolutions with a residual sum; `kind` chooses what goes wrong."""
    b = Quantized()
    dtype = "int8" if kind == "signed" else "uint8"
    x = b.pair("x", "x8", dtype)
    first = b.pair(b.conv8(x, "conv1", 4, 4), "conv1.8", dtype)
    if kind == "island":
        first = b.pair(b.node("Erf", [first], "erf"), "erf.8", dtype)
    second = b.conv8(first, "conv2", 4, 4)
    if kind != "open end":
        second = b.pair(second, "conv2.8", dtype)
    b.pair(b.node("Add", [second, first], "total"), "y", dtype)
    return b.model([("x", "float32", SHAPE)], [("y", "float32", SHAPE)])


def profiled(model: onnx.ModelProto, folder: Path, optimization: str = "all") -> Lowered:
    path = graphs.write(model, folder)
    settings = RuntimeSettings(optimization=optimization)
    profile = profile_nodes(path, settings, graphs.random_feeds(model)[0], 1)
    return lowered(profile, graphs.as_graph(model))


def test_all_that_was_asked_for_ran(tmp_path: Path) -> None:
    """uint8 activations with int8 weights are lowered completely."""
    found = profiled(two_convolutions("plain"), tmp_path)
    assert (found.asked, found.ran, found.islands) == (2, 2, 0)
    assert found.note == ""
    kinds = {layer.operator.split(":")[-1]: layer.precision for layer in found.layers}
    assert kinds["QLinearConv"] == "int8"
    assert kinds["QuantizeLinear"] == "other"
    assert all(layer.time_s is not None and layer.time_s > 0 for layer in found.layers)
    assert {layer.provider for layer in found.layers} == {"CPUExecutionProvider"}


def test_signed_activations_with_a_branch_stay_in_float(tmp_path: Path) -> None:
    """The known trap: int8 activations with two users are not fused, and that is seen."""
    found = profiled(two_convolutions("signed"), tmp_path)
    assert found.asked == 2
    assert found.ran is not None
    assert found.ran < 2
    assert found.islands > 0


def test_an_operator_in_float_between_is_an_island(tmp_path: Path) -> None:
    """Dequantize, Erf, quantize: one island, and both convolutions still run in integers."""
    found = profiled(two_convolutions("island"), tmp_path)
    assert (found.asked, found.ran) == (2, 2)
    assert found.islands == 1


def test_a_convolution_that_ends_in_float_was_not_asked(tmp_path: Path) -> None:
    """Without Quantize behind it a convolution is not completely wrapped."""
    assert profiled(two_convolutions("open end"), tmp_path).asked == 1


def test_without_optimizations_nothing_is_lowered(tmp_path: Path) -> None:
    """The same graph executed as it stands: asked for two, ran none."""
    found = profiled(two_convolutions("plain"), tmp_path, "off")
    assert (found.asked, found.ran) == (2, 0)


def test_a_float_model_asks_for_nothing(tmp_path: Path) -> None:
    """No integers in, none out."""
    found = profiled(graphs.conv_chain(), tmp_path)
    assert (found.asked, found.ran, found.islands) == (0, 0, 0)
    assert {layer.precision for layer in found.layers} == {"float32"}


def test_integer_operators_in_the_graph_are_asked_and_ran(tmp_path: Path) -> None:
    """Dynamic quantization writes integer operators itself: they count on both sides."""
    b = Builder()
    b.constant("w", np.ones((4, 3), np.int8))
    names = ["q", "scale", "zero"]
    b.nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", ["x"], names, name="dynamic"))
    b.node("MatMulInteger", ["q", "w", "zero"], "product")
    b.node("Cast", ["product"], "y", to=1)
    found = profiled(b.model([("x", "float32", ("N", 4))], [("y", "float32", ("N", 3))]), tmp_path)
    assert (found.asked, found.ran) == (1, 1)


HIDDEN: dict[str, Any] = {
    "name": "TRTKernel_0",
    "op": "TRTKernel_0",
    "domain": None,
    "provider": "TensorrtExecutionProvider",
    "time_s": 0.001,
    "inputs": [],
    "outputs": [],
}


@pytest.mark.parametrize(("nodes", "words"), [([HIDDEN], "Tensorrt"), ([], "nothing")])
def test_what_a_provider_hides_is_unknown(nodes: list[dict[str, Any]], words: str) -> None:
    """A compiled subgraph, or no profile at all: `ran` is None and the note says why."""
    found = lowered({"nodes": nodes}, graphs.as_graph(two_convolutions("plain")))
    assert found.asked == 2
    assert found.ran is None
    assert words in found.note


@pytest.mark.parametrize(
    ("op", "inputs", "precision"),
    [
        ("Conv", ["float"], "float32"),
        ("Conv", ["float16"], "float16"),
        ("NhwcMaxPool", ["uint8"], "int8"),
        ("Transpose", ["int8"], "int8"),
        ("MatMulNBits", ["float", "uint8"], "int4"),
        ("Gather", ["int64"], "other"),
        ("Mystery", [], "unknown"),
    ],
)
def test_precision_by_operator_and_types(op: str, inputs: list[str], precision: str) -> None:
    """What a layer computes in, from its operator or from the type of its first operand."""
    node = {"name": "n", "op": op, "domain": "com.microsoft", "provider": "", "inputs": inputs}
    layer = lowered({"nodes": [node]}, graphs.as_graph(graphs.conv_chain())).layers[0]
    assert layer.precision == precision
    assert layer.operator == f"com.microsoft:{op}"
    assert layer.time_s is None


def test_every_float_layer_says_why(tmp_path: Path) -> None:
    """The side that is float is named, and a float model has nothing to explain."""
    found = profiled(two_convolutions("open end"), tmp_path)
    assert found.stayed == ("Conv 'conv2' stayed float because its result is read in float by Add",)
    assert profiled(graphs.conv_chain(), tmp_path).stayed == ()
    signed = profiled(two_convolutions("signed"), tmp_path).stayed
    assert any("although it was asked for" in sentence for sentence in signed)


def test_a_pool_of_codes_in_the_layout_of_floats_is_a_trap() -> None:
    """The executed graph shows it; one in the layout of integers is none."""
    model = graphs.as_graph(graphs.conv_chain())
    slow = {"name": "pool", "op": "MaxPool", "inputs": ["tensor(uint8)"]}
    fast = {"name": "pool", "op": "NhwcMaxPool", "inputs": ["tensor(uint8)"]}
    (sentence,) = lowered({"nodes": [slow]}, model).traps
    assert "MaxPool of uint8" in sentence
    assert lowered({"nodes": [fast]}, model).traps == ()


def test_reasons_of_what_nothing_was_asked_for() -> None:
    """Few channels, computed operands, a stored weight behind a Transpose, factors, squares."""
    b = Builder()
    b.conv("x", "stem", (3, 8))
    b.conv("stem", "second", (8, 8))
    b.node("Reshape", ["second", b.constant("rows", np.array([-1, 8], np.int64))], "r")
    b.node("Transpose", ["r"], "t", perm=[1, 0])
    b.node("MatMul", ["r", "t"], "products")
    b.node("Transpose", [b.weight("w", 4, 8)], "wt", perm=[1, 0])
    b.node("MatMul", ["r", "wt"], "stored")
    b.node("Gemm", ["stored", b.weight("v", 4, 4)], "scaled", alpha=2.0)
    b.node("Mul", ["scaled", "scaled"], "square")
    b.node("MatMul", ["square", b.weight("u", 4, 2)], "y")
    shape = ("N", 3, 8, 8)
    graph = ir.from_proto(b.model([("x", "float32", shape)], [("y", "float32", ("M", 2))]))
    told = {
        node.outputs[0].name: unasked(node)
        for node in graph.graph
        if node.op_type in {"Conv", "Gemm", "MatMul"}
    }
    assert told == {
        "stem": "nothing asks for integers there (of 3 input channels they are often slower)",
        "second": "nothing asks for integers there",
        "products": "both of its operands are computed",
        "stored": "its weight stands behind Transpose",
        "scaled": "an integer Gemm has neither factors nor a transposed activation",
        "y": "it sums squares, whose range eight bits do not hold",
    }
