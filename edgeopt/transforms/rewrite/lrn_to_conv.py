"""Local response normalization across channels, spelled in operators that have fast kernels.

    LRN(x)  =  x / s^beta        s = bias + alpha / size * (sum of x^2 over `size` channels)

The sum over neighbouring channels is a 1x1 convolution of x^2 with a band of ones; s^0.75 is
sqrt(s) * sqrt(sqrt(s)), so that no power is computed. ONNX Runtime's LRN computes one for every
element on one thread: it takes more than half of the time of AlexNet-like nets.

It must not fire with another beta than 0.5, 0.75 or 1, with an even size (it has no middle),
where the number of channels is not known, on other than planes in float32, or where bias and
alpha make a root of a negative number or a division by zero possible.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, new_node
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, floating, input_of, integer, refuse, site_of

_PLANES = 4
_MOST_CHANNELS = 1024
"""The band is a full matrix: beyond it the convolution costs more than the normalization."""
_ROOTS = {0.5: 1, 0.75: 2, 1.0: 0}
"""Square roots, one of the other, whose product is the power beta; none: the sum itself."""


@dataclass(frozen=True, slots=True)
class _Lrn:
    node: ir.Node
    source: ir.Value
    channels: int


def _match(node: ir.Node) -> _Lrn | Rejection:
    source = input_of(node, 0)
    if source is None or source.shape is None or len(source.shape) != _PLANES:
        return refuse("its input does not hold planes", node)
    if source.dtype != ir.DataType.FLOAT:
        return refuse("it is not in float32", node)
    channels = source.shape[1]
    if not isinstance(channels, int) or channels > _MOST_CHANNELS:
        return refuse("the number of channels is free, or too large", node)
    if integer(node, "size", 1) % 2 == 0:
        return refuse("it looks at an even number of channels", node)
    if floating(node, "beta", 0.75) not in _ROOTS:
        return refuse("beta is not 0.5, 0.75 or 1", node)
    if floating(node, "bias", 1.0) <= 0.0 or floating(node, "alpha", 1e-4) < 0.0:
        return refuse("its sum may be zero or negative", node)
    return _Lrn(node, source, channels)


def _band(node: ir.Node, channels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """[channels, channels, 1, 1]: alpha / size where the second is near the first."""
    size = integer(node, "size", 1)
    apart = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    near = abs(apart) <= size // 2
    weight = near * (floating(node, "alpha", 1e-4) / size)
    return weight.astype(np.float32).reshape(channels, channels, 1, 1)


def _rewrite(editor: Editor, found: _Lrn) -> None:
    node, x, old = found.node, found.source, found.node.outputs[0]
    name = f"{site_of(node)}/lrn_to_conv"
    weight = editor.initializer(f"{name}/band", _band(node, found.channels))
    offset = np.full(found.channels, floating(node, "bias", 1.0), np.float32)
    bias = editor.initializer(f"{name}/bias", offset)
    steps: list[ir.Node] = []

    def step(operator: str, inputs: list[ir.Value], role: str) -> ir.Value:
        steps.append(new_node(operator, inputs, output=f"{name}{role}", like=old))
        return steps[-1].outputs[0]

    power = step("Conv", [step("Mul", [x, x], "/square"), weight, bias], "/sum")
    roots = list[ir.Value]()
    for index in range(_ROOTS[floating(node, "beta", 0.75)]):
        power = step("Sqrt", [power], f"/root_{index}")
        roots.append(power)
    if len(roots) > 1:
        power = step("Mul", roots, "/power")
    result = step("Div", [x, power], "")
    editor.insert(steps, before=node)
    editor.replace_value(old, result)
    editor.remove_dead([node])


PLUGIN = LocalRule(
    name="lrn_to_conv", roots=frozenset({"LRN"}), match=_match, rewrite=_rewrite, opset=7
)
