"""GELU in integers: a product of codes with their logistic function.

    GELU(x) = x · Φ(x)  ≈  x · σ(1.702 x)       within 0.021 (Hendrycks and Gimpel, 2016)

The runtime has no integer GELU: codes become floats before it and codes again behind it, which
takes longer than the GELU. It has a table of a logistic function (QLinearSigmoid), and what that
reads may be the codes of x at another scale: the factor costs nothing. Swish is the same with 1.
"""

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, new_node
from edgeopt.transforms.activations import POINTS, Activation, numbers, starting_at
from edgeopt.transforms.base import Range
from edgeopt.transforms.groups import SIGMOID, is_output, name_of
from edgeopt.transforms.quantize._plan import Plan
from edgeopt.transforms.quantize._scale import scale_of

SIGMOID_GELU = "sigmoid_gelu"
"""The parameter of an action that asks for it."""
_SLOPES = (1.702, 1.0)
_APART = 0.0225
_ALONE = frozenset({"Sigmoid", "Mul"})
"""Spelled by these alone it has integer kernels as it is."""


def gelu_behind(model: ir.Model, value: ir.Value) -> tuple[Activation, float] | None:
    """What alone reads a value and is nearly x · σ(slope · x), with its slope."""
    for found in starting_at(value):
        inside = set(found.nodes)
        alone = all(user in inside or user.op_type == "QuantizeLinear" for user, _ in value.uses())
        if found.kinds <= _ALONE or not alone or found.is_watched:
            continue
        made = numbers(model, found)
        slope = None if made is None else _slope(made)
        if slope is not None:
            return found, slope
    return None


def _slope(made: npt.NDArray[np.float64]) -> float | None:
    """Of the logistic function whose product with x is near to these numbers."""
    apart = {k: np.abs(made - POINTS / (1 + np.exp(-k * POINTS))).max() for k in _SLOPES}
    return next((slope for slope, off in apart.items() if off <= _APART), None)


def write_gelu(editor: Editor, held: ir.Value, plan: Plan, action: Action) -> ir.Value | None:
    """Put the integer form in the place of what reads a dequantized value.

    Args:
        editor: Of the graph.
        held: The floats that codes become, [...].
        plan: Knows the range of what is made.
        action: Says the type of codes.

    Returns:
        What is made, still to be coded; None where no such activation reads it, or nobody knows
        its range.
    """
    found = gelu_behind(editor.model, held)
    dtype = str(action.get("activation"))
    if found is None or is_output(found[0].result):
        return None
    (activation, slope), dequantize = found, held.producer()
    name = name_of(activation.result)
    if plan.scale(name, dtype) is None or dequantize is None:
        return None
    codes, scale, zero = dequantize.inputs
    assert codes is not None, "a DequantizeLinear reads codes"
    step = array_of(scale)
    assert step is not None, "it was made with a constant"
    steep = np.asarray(step * np.float32(slope), np.float32)
    steeper = editor.initializer(f"{name}__slope", steep)
    read = new_node("DequantizeLinear", [codes, steeper, zero], output=f"{name}__steep", like=held)
    sigmoid = new_node("Sigmoid", [read.outputs[0]], output=f"{name}{SIGMOID}", like=held)
    share = scale_of(Range(low=0.0, high=1.0), dtype)
    constants = [
        editor.initializer(f"{name}__sigmoid_scale", share.scale),
        editor.initializer(f"{name}__sigmoid_zero", share.zero),
    ]
    coded = new_node(
        "QuantizeLinear", [sigmoid.outputs[0], *constants], output=f"{name}__sigmoid_quantized"
    )
    coded.outputs[0].type, coded.outputs[0].shape = codes.type, codes.shape
    factor = new_node(
        "DequantizeLinear",
        [coded.outputs[0], *constants],
        output=f"{name}__sigmoid_dequantized",
        like=held,
    )
    product = new_node("Mul", [held, factor.outputs[0]], output=f"{name}__gelu", like=held)
    last = activation.nodes[-1]
    editor.insert([read, sigmoid, coded, factor, product], before=last)
    editor.replace_value(activation.result, product.outputs[0])
    editor.remove_dead([last])
    return product.outputs[0]
