"""Models that the runtime has optimized and saved: its own operators have shapes, its norms go."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.graph.normalize import normalize
from edgeopt.graph.runtime import Session
from edgeopt.graph.shapes import inferred
from edgeopt.graph.wellformed import check_wellformed
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import random_feeds

PLAIN = RuntimeSettings(optimization="off")
DOMAINS = '"" : 17, "com.microsoft" : 1'


def shapes_of(text: str) -> dict[str, list[int | str]]:
    """Inferred shapes by name."""
    found = inferred(ir.from_proto(parser.parse_model(text)))
    return {
        name: [d.dim_value or d.dim_param for d in info.type.tensor_type.shape.dim]
        for name, info in found.items()
    }


def test_shapes_go_on_behind_a_fused_convolution() -> None:
    """Strides and pads count, and so do what follows and the batch's name."""
    found = shapes_of(f"""<ir_version: 8, opset_import: [{DOMAINS}]>
        g (float[N,2,8,8] x, float[5,2,3,3] w) => (float[a,b,c,d] y) {{
            c = com.microsoft.FusedConv <activation = "Relu", pads = [1,1,1,1],
                strides = [2,2]> (x, w)
            y = Sigmoid (c)
        }}""")
    assert found["c"] == ["N", 5, 4, 4]


@pytest.mark.parametrize(("flags", "shape"), [("transB = 1", [2, 3, 3]), ("transA = 1", [2, 4, 4])])
def test_shapes_of_a_transposed_product(flags: str, shape: list[int]) -> None:
    """The last two axes change places, batches stay."""
    found = shapes_of(f"""<ir_version: 8, opset_import: [{DOMAINS}]>
        g (float[2,3,4] x) => (float[a,b,c] y) {{
            m = com.microsoft.FusedMatMul <{flags}, alpha = 0.5> (x, x)
            y = Relu (m)
        }}""")
    assert found["m"] == shape


def test_shapes_of_a_normalized_sum() -> None:
    """Both the normalized value and the sum."""
    found = shapes_of(f"""<ir_version: 8, opset_import: [{DOMAINS}]>
        g (float[N,2,4] x, float[4] w) => (float[a,b,c] y, float[d,e,f] s) {{
            n, m, d, r = com.microsoft.SkipLayerNormalization (x, x, w)
            y = Relu (n)
            s = Relu (r)
        }}""")
    assert found["r"] == ["N", 2, 4]


def test_attention_is_as_wide_as_its_values() -> None:
    """One row a query."""
    found = shapes_of(f"""<ir_version: 8, opset_import: [{DOMAINS}]>
        g (float[1,5,8] q, float[1,7,8] k, float[1,7,6] v) => (float[a,b,c] y) {{
            a = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)
            y = Relu (a)
        }}""")
    assert found["a"] == [1, 5, 6]


NORMS = """<ir_version: 8, opset_import: ["" : 11]>
    g (float[N,3,4] x) => (float[N,3,4] y)
    <float[4] g = {1, 2, 0.5, -1}, float[4] b = {0.5, 0, 1, -1}>
    {
        n = LayerNormalization <axis = -1, epsilon = 0.001> (x, g, b)
        r = Relu (n)
        s = SimplifiedLayerNormalization <axis = 2, epsilon = 0.001> (r, g)
        y = LayerNormalization <axis = 2> (s, g)
    }"""


def test_norms_of_the_runtime_become_standard() -> None:
    """What ONNX Runtime writes below opset 17 is read, spelled, and the operator set is raised."""
    model = parser.parse_model(NORMS)
    check_wellformed(model)
    made = normalize(ir.from_proto(model))
    onnx.checker.check_model(  # pyright: ignore[reportUnknownMemberType]
        onnx.ModelProto.FromString(to_bytes(made)), full_check=True
    )
    assert made.graph.opset_imports[""] >= 17
    for feed in random_feeds(model, 3):
        one = Session(model.SerializeToString(), PLAIN).run(feed)["y"]
        other = Session(to_bytes(made), PLAIN).run(feed)["y"]
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def test_a_norm_whose_mean_is_read_stays() -> None:
    """There is no mean to give: the model stays as it is, and still runs."""
    text = NORMS.replace("n = Layer", "n, m = Layer").replace(
        "(float[N,3,4] y)", "(float[N,3,4] y, float[N,3,1] m)"
    )
    model = parser.parse_model(text)
    made = normalize(ir.from_proto(model))
    assert "LayerNormalization" in {node.op_type for node in made.graph}
    feed = random_feeds(model, 1)[0]
    expected = Session(model.SerializeToString(), PLAIN).run(feed)["y"]
    np.testing.assert_allclose(
        Session(to_bytes(made), PLAIN).run(feed)["y"], expected, rtol=1e-4, atol=1e-5
    )
