"""Which asked operators run in integers: what is believed, and what placements teach."""

import onnx
import onnx_ir as ir
import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.lowered import Layer, Lowered
from edgeopt.estimate.kernels import Kernels, kernel_of
from edgeopt.estimate.work import NAMES, counted, work_of
from edgeopt.graph.lowered import lowered
from edgeopt.graph.runtime import profile_nodes, synthetic_feed
from edgeopt.graph.shapes import infer_shapes
from edgeopt.graph.write import to_proto

TYPES = '<ir_version: 8, opset_import: ["" : 17]>'
CONSTANTS = """
    float s = {0.1}, uint8 uint8_z = {3}, int8 int8_z = {3}, float low = {0.0}, float high = {6.0},
    int64[4] sizes = {1, 8, 100, 1}, float[4] twice = {1.0, 1.0, 2.0, 2.0},
    int64[1] first = {0}, int64[1] last = {4}, int64[1] axis = {1}
"""
CALLS = {
    "Relu": "Relu (xd)",
    "Clip": "Clip (xd, low, high)",
    "LeakyRelu": "LeakyRelu (xd)",
    "Sigmoid": "Sigmoid (xd)",
    "Tanh": "Tanh (xd)",
    "HardSigmoid": "HardSigmoid (xd)",
    "HardSwish": "HardSwish (xd)",
    "Add": "Add (xd, xd)",
    "Mul": "Mul (xd, xd)",
    "MaxPool": "MaxPool <kernel_shape = [2, 2]> (xd)",
    "AveragePool": "AveragePool <kernel_shape = [2, 2]> (xd)",
    "GlobalAveragePool": "GlobalAveragePool (xd)",
    "Reshape": "Reshape (xd, sizes)",
    "Transpose": "Transpose <perm = [0, 2, 3, 1]> (xd)",
    "Slice": "Slice (xd, first, last, axis)",
    "Resize": 'Resize <mode = "nearest"> (xd, , twice)',
    "Concat": "Concat <axis = 1> (xd, xd)",
    "MatMul": "MatMul (xd, xd)",
}


def asking(call: str, types: str) -> ir.Model:
    """A call between a dequantizer and a quantizer of the same scale."""
    z = f"{types}_z"
    model = onnx.parser.parse_model(f"""{TYPES} g (float[1, 8, 10, 10] x) => (float[a, b, c, d] y)
        <{CONSTANTS}> {{
            xq = QuantizeLinear (x, s, {z}) xd = DequantizeLinear (xq, s, {z})
            m = {call} mq = QuantizeLinear (m, s, {z}) y = DequantizeLinear (mq, s, {z}) }}""")
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    graph = ir.from_proto(model)
    infer_shapes(graph)
    return graph


def placed(graph: ir.Model, folder) -> Lowered:
    """What the runtime on this machine makes of it."""
    path = folder / "model.onnx"
    path.write_bytes(to_proto(graph).SerializeToString())
    return lowered(profile_nodes(path, RuntimeSettings(), synthetic_feed(graph), 1), graph)


def middle(graph: ir.Model) -> ir.Node:
    """The asked operator."""
    return next(node for node in graph.graph if node.outputs[0].name == "m")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("types", ["uint8", "int8"])
def test_one_placement_teaches_what_the_runtime_did(name: str, types: str, tmp_path):
    """Without an integer kernel two quantizers are executed, with one the first only.

    Which of the int8 ones have a kernel depends on the processor: then only learning knows.
    """
    graph = asking(CALLS[name], types)
    found = placed(graph, tmp_path)
    ran = sum(layer.operator == "QuantizeLinear" for layer in found.layers) == 1
    kernel = kernel_of(middle(graph))
    assert kernel == f"{name}({types}){types}"
    assert Kernels().learned(graph, found).has(kernel) == ran
    if types == "uint8":
        assert Kernels().has(kernel) == ran


def counts(graph: ir.Model, kernels: Kernels) -> dict[str, float]:
    return dict(zip(NAMES, work_of(graph, kernels=kernels), strict=True))


def seen(kernel: str, integers: int, floats: int) -> Kernels:
    return Kernels({kernel: (integers, floats)})


def test_what_has_no_kernel_is_counted_as_an_island():
    """Its work in float, and a border on either side; with a kernel nothing but integers."""
    graph = asking(CALLS["Add"], "uint8")
    kernel = kernel_of(middle(graph))
    without, having = (counts(graph, seen(kernel, *each)) for each in ((1, 2), (2, 1)))
    assert having["elements_int"] == pytest.approx(800 / 1e5)
    assert having["elements_float"] == having["islands"] == 0
    assert without["elements_float"] == pytest.approx(800 / 1e5)
    assert without["elements_int"] == 0
    assert without["islands"] == pytest.approx(2 * 800 / 1e5)
    outer = ("entering", "leaving", "nodes")
    assert [having[name] for name in outer] == [without[name] for name in outer]


def test_a_convolution_without_a_kernel_leaves_and_enters():
    """A float convolution has a layout of its own: its borders are whole ones."""
    model = ir.from_onnx_text(f"""{TYPES} g (float[1, 2, 10, 10] x) => (float[1, 2, 10, 10] y)
        <float s = {{0.1}}, uint8 z = {{3}}, int8 zc = {{0}},
            int8[2, 2, 1, 1] c = {{1, 1, 1, 1}}> {{
            xq = QuantizeLinear (x, s, z) xd = DequantizeLinear (xq, s, z)
            wd = DequantizeLinear (c, s, zc) m = Conv (xd, wd)
            mq = QuantizeLinear (m, s, z) y = DequantizeLinear (mq, s, z) }}""")
    infer_shapes(model)
    kernel = kernel_of(middle(model))
    assert kernel == "Conv(uint8,int8)uint8"
    found = counts(model, seen(kernel, 0, 1))
    assert found["conv_int"] == found["islands"] == 0
    assert found["conv_float"] == pytest.approx(400 / 1e6)
    assert found["entering"] == found["leaving"] == pytest.approx(400 / 1e5)
    assert counts(model, Kernels())["conv_int"] == pytest.approx(400 / 1e6)


def test_the_order_of_placements_does_not_matter():
    """Most count; where nobody is in the majority, what is believed."""
    graph = asking(CALLS["Add"], "uint8")
    name = middle(graph).name or ""
    layers = [
        Layer(name=name, operator="Add", precision="float32", provider=""),
        Layer(
            name=f"{name}_token_3",
            operator="com.microsoft:QLinearAdd",
            precision="int8",
            provider="",
        ),
    ]
    one, other = (Lowered(layers=(layer,), asked=1, ran=1) for layer in layers)
    kernel = kernel_of(middle(graph))
    for order in ([one, one, other], [other, one, one]):
        found = Kernels()
        for each in order:
            found = found.learned(graph, each)
        assert found.seen == {kernel: (1, 2)}
        assert not found.has(kernel)
    assert Kernels().learned(graph, one).learned(graph, other).has(kernel)


def test_what_is_hidden_or_fused_away_teaches_nothing():
    """A provider that compiles, another operator under a similar name, and nothing at all."""
    graph = asking(CALLS["Add"], "uint8")
    name = middle(graph).name or ""
    hidden = Lowered(
        layers=(Layer(name=name, operator="Add", precision="float32", provider="x"),), ran=None
    )
    strange = Lowered(
        layers=(
            Layer(name=f"{name}_x", operator="Mul", precision="float32", provider=""),
            Layer(name=f"{name}_q", operator="QuantizeLinear", precision="other", provider=""),
        ),
        ran=0,
    )
    for each in (hidden, strange, None):
        assert Kernels().learned(graph, each) == Kernels()


def test_counting_once_serves_all_kernels():
    """What is counted before placements are known holds for whatever they say."""
    graph = asking(CALLS["Mul"], "int8")
    work, kernel = counted(graph), kernel_of(middle(graph))
    for kernels in (seen(kernel, 1, 0), seen(kernel, 0, 1)):
        assert list(work.under(kernels)) == list(work_of(graph, kernels=kernels))
    assert list(work.under(seen(kernel, 1, 0))) != list(work.under(seen(kernel, 0, 1)))
