"""GELU, however an exporter spelled it, as the one operator of opset 20.

    x · (1 + Erf(x / sqrt(2))) / 2                                   =  Gelu(x)
    x · (1 + Tanh(sqrt(2/pi) · (x + 0.044715 · x³))) / 2             =  Gelu(x, approximate=tanh)
    x · (1 + Tanh(sqrt(2/pi) · x · (1 + 0.044715 · x²))) / 2         =  Gelu(x, approximate=tanh)

In every commuted and associated spelling of the product; x³ is a Pow or two products.
It must not fire below opset 20 (no Gelu), where the gate's x is another value than the factor,
where the gate is used elsewhere, with other constants, or on double precision, which the runtime
has no kernel for. x · Sigmoid(1.702 x) is another function: in an int8 model it lost four points
of a text recogniser.
It is imperative: the numbers may stand anywhere in a product of any length, which no pattern of a
fixed shape says.
"""

import math

import onnx_ir as ir

from edgeopt.graph.editor import sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.fuse._gates import (
    Spelled,
    close,
    factors_of,
    scalar,
    spelled,
    step_of,
    write_operator,
)
from edgeopt.transforms.local_rule import LocalRule, input_of, refuse

_CUBIC = 0.044715
_CUBE = 3


def _match(root: ir.Node) -> Spelled | Rejection:
    factors, number = factors_of(root.outputs[0])
    if len(factors) != 2:
        return refuse("it is no product of two values", root)
    for source, other in (tuple(factors), tuple(reversed(factors))):
        inner = _above_one(other)
        if inner is None:
            continue
        if inner.op_type == "Erf":
            fits, approximate = _is_erf_of(inner, source), "none"
        else:
            fits, approximate = _is_tanh_of(inner, source), "tanh"
        if fits is None:
            continue
        if not fits or not close(number, 0.5, source):
            return refuse("it has other constants than GELU", root)
        if sole_user(other) is None:
            return refuse("the gate is used elsewhere too", root)
        return spelled(root, "Gelu", source, approximate=approximate)
    return refuse("neither factor is a GELU's gate of the other", root)


def _above_one(value: ir.Value) -> ir.Node | None:
    """The Erf or Tanh in 1 + Erf(...)."""
    line = step_of(value)
    if line is None or line.factor != 1.0 or not close(line.offset, 1.0, value):
        return None
    node = line.source.producer()
    known = node is not None and not node.domain and node.op_type in ("Erf", "Tanh")
    return node if known else None


def _is_erf_of(erf: ir.Node, source: ir.Value) -> bool | None:
    """Whether it is Erf(x / sqrt(2)); None where it is of another value."""
    inner = input_of(erf, 0)
    line = None if inner is None else step_of(inner)
    if line is None or line.source is not source or line.offset:
        return None
    return close(line.factor, math.sqrt(0.5), source)


def _is_tanh_of(tanh: ir.Node, source: ir.Value) -> bool | None:
    """Whether it is Tanh(sqrt(2/pi) · (x + 0.044715 · x³)); None where it is of another value."""
    inner = input_of(tanh, 0)
    bracket = None if inner is None else _bracketed(inner, source)
    if bracket is not None:
        return bracket
    line = None if inner is None else step_of(inner)
    total = None if line is None or line.offset else line.source.producer()
    if line is None or total is None or total.op_type != "Add" or total.domain:
        return None
    for own, other in (tuple(total.inputs), tuple(reversed(total.inputs))):
        cubic = None if own is not source or other is None else _cubic(other, source)
        if cubic is not None:
            slope = close(line.factor, math.sqrt(2 / math.pi), source)
            return slope and close(cubic, _CUBIC, source)
    return None


def _bracketed(inner: ir.Value, source: ir.Value) -> bool | None:
    """Whether it is sqrt(2/pi) · x · (1 + 0.044715 · x²); None for anything else."""
    factors, slope = factors_of(inner)
    if len(factors) != 2 or source not in factors:
        return None
    other = factors[1] if factors[0] is source else factors[0]
    line = step_of(other)
    if line is None or line.factor != 1.0 or not close(line.offset, 1.0, source):
        return None
    squares, number = factors_of(line.source)
    if squares != [source, source]:
        return None
    return close(slope, math.sqrt(2 / math.pi), source) and close(number, _CUBIC, source)


def _cubic(value: ir.Value, source: ir.Value) -> float | None:
    """c in c · x³; None for anything else."""
    factors, number = factors_of(value)
    if factors == [source] * _CUBE:
        return number
    node = factors[0].producer() if len(factors) == 1 else None
    if node is None or node.op_type != "Pow" or node.domain or node.inputs[0] is not source:
        return None
    return number if scalar(node.inputs[1], source) == _CUBE else None


PLUGIN = LocalRule(
    name="gelu",
    roots=frozenset({"Mul", "Div"}),
    match=_match,
    rewrite=write_operator,
    opset=20,
)
"""Opset 20 is the first with Gelu."""
