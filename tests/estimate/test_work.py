"""What is counted of a graph: work by kind and precision, and what crosses a precision border."""

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.estimate.work import NAMES, work_of
from edgeopt.graph.shapes import infer_shapes

TYPES = '<ir_version: 8, opset_import: ["" : 17]>'
WEIGHT, CODES = ", ".join(["0.5"] * 64), ", ".join(["1"] * 64)
EIGHT = ", ".join(["1.0"] * 8)
CONSTANTS = f"""
    float[8, 8, 1, 1] w = {{{WEIGHT}}}, int8[8, 8, 1, 1] c = {{{CODES}}},
    float[8] one = {{{EIGHT}}}, float[1, 8, 1, 1] bias = {{{EIGHT}}},
    float s = {{0.1}}, uint8 z = {{3}}, float sc = {{0.01}}, int8 zc = {{0}}
"""


def counted(body: str) -> dict[str, float]:
    """The amounts that are not 0."""
    signature = "g (float[1, 8, 10, 10] x) => (float[1, 8, 10, 10] y)"
    model = ir.from_onnx_text(f"{TYPES} {signature} <{CONSTANTS}> {{ {body} }}")
    infer_shapes(model)
    found = dict(zip(NAMES, work_of(model), strict=True))
    return {name: value for name, value in found.items() if value}


def test_a_float_convolution_with_its_activation_is_one_node():
    """Fused into the convolution, the activation costs nothing of its own."""
    found = counted("a = Conv (x, w) y = Relu (a)")
    assert found["conv_float"] == pytest.approx(8 * 8 * 100 / 1e6)
    assert found["nodes"] == 1
    assert "elements_float" not in found


def test_an_activation_that_is_spelled_out_costs_its_elements():
    """Mul and Sigmoid of a value with two readers are not fused."""
    found = counted("a = Conv (x, w) b = Sigmoid (a) y = Mul (a, b)")
    assert found["elements_float"] == pytest.approx(2 * 800 / 1e5)


def test_a_bias_and_a_normalisation_go_into_the_convolution():
    """Added and multiplied constants, the activation behind them too: one node, no elements."""
    found = counted("a = Conv (x, w) b = Add (a, bias) c2 = Mul (b, s) y = HardSwish (c2)")
    assert found["nodes"] == 1
    assert "elements_float" not in found
    normalised = "a = Conv (x, w) b = BatchNormalization (a, one, one, one, one) y = Relu (b)"
    assert counted(normalised) == counted("a = Conv (x, w) y = Relu (a)")


def test_a_residual_add_goes_into_the_convolution_before_it():
    """An Add of two images costs nothing where one of them is a convolution's and its alone."""
    assert counted("a = Conv (x, w) y = Add (a, x)")["nodes"] == 1
    found = counted("a = Conv (x, w) b = Relu (a) y = Add (b, x)")
    assert found["nodes"] == 2
    assert found["elements_float"] == pytest.approx(800 / 1e5)


def test_behind_an_activation_nothing_is_fused():
    """A constant added after the activation, or read twice, is work of its own."""
    found = counted("a = Conv (x, w) b = Relu (a) y = Add (b, bias)")
    assert found["elements_float"] == pytest.approx(800 / 1e5)
    twice = counted("a = Conv (x, w) b = Add (a, bias) y = Mul (b, a)")
    assert twice["elements_float"] == pytest.approx(1600 / 1e5)


QUANTIZED = """
    xq = QuantizeLinear (x, s, z) xd = DequantizeLinear (xq, s, z)
    wd = DequantizeLinear (c, sc, zc)
    a = Conv (xd, wd) aq = QuantizeLinear (a, s, z) ad = DequantizeLinear (aq, s, z)
"""


def test_an_integer_convolution_enters_and_leaves():
    """The quantizer behind it is part of its kernel; the borders cost their elements."""
    found = counted(QUANTIZED + "y = Exp (ad)")
    assert found["conv_int"] == pytest.approx(8 * 8 * 100 / 1e6)
    assert "conv_float" not in found
    assert found["entering"] == pytest.approx(800 / 1e5)
    assert found["leaving"] == pytest.approx(800 / 1e5)


def test_between_integer_convolutions_nothing_crosses():
    """A second one behind the first one adds work and no border."""
    chain = (
        QUANTIZED
        + """
        wd2 = DequantizeLinear (c, sc, zc)
        b = Conv (ad, wd2) bq = QuantizeLinear (b, s, z) y = DequantizeLinear (bq, s, z)
    """
    )
    found = counted(chain)
    assert found["conv_int"] == pytest.approx(2 * 8 * 8 * 100 / 1e6)
    assert found["entering"] == pytest.approx(800 / 1e5)
    assert found["leaving"] == pytest.approx(800 / 1e5)


def test_a_convolution_without_codes_behind_it_stays_float():
    """Codes in alone make no integer convolution: the runtime computes it in float."""
    found = counted("""
        xq = QuantizeLinear (x, s, z) xd = DequantizeLinear (xq, s, z)
        wd = DequantizeLinear (c, sc, zc) y = Conv (xd, wd)
    """)
    assert "conv_int" not in found
    assert found["leaving"] == pytest.approx(800 / 1e5)


def test_amounts_are_finite_and_not_negative():
    """Also for what is in no list."""
    found = counted("a = Exp (x) b = Shape (a) y = Reshape (a, b)")
    assert all(np.isfinite(value) and value > 0 for value in found.values())
