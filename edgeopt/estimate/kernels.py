"""Which operators that are asked for in integers run in integers.

A graph asks by writing an operator between DequantizeLinear and QuantizeLinear. Whether the
runtime has a kernel for that depends on the operator, the types of the codes and the processor: an
int8 Add is computed in float on x86 and in integers on Arm. So it is learned: of each kind of
asked operator (`kernel_of`) the placements of measured graphs say how many ran in integers, and
before any does, what holds everywhere is believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from edgeopt.core.lowered import Layer, Lowered
from edgeopt.estimate.fused import ACTIVATIONS, host_of
from edgeopt.graph.placement_reasons import built_name
from edgeopt.transforms.groups import ARITHMETIC, JOINING, MOVING, QUANTIZERS, is_constant

PRODUCTS = frozenset({"Gemm", "MatMul", "FusedMatMul", "FusedGemm", "QGemm", "MatMulNBits"})
_CODED = frozenset(
    {
        "ConvInteger",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul",
        "DynamicQuantizeLSTM",
        "MatMulNBits",
        "QLinearConv",
        "QLinearMatMul",
        "QGemm",
    }
)
_WITHOUT = frozenset({"Relu", "Clip", "Tanh", "HardSigmoid", "HardSwish"})
"""Between a dequantizer and a quantizer the runtime computes these in float everywhere; behind an
integer convolution it folds Relu and Clip into that."""
_INTEGER = frozenset({"int8", "int4"})
_FLOAT = frozenset({"float32", "float16"})


@dataclass(frozen=True)
class Kernels:
    """What is known of the integer kernels of one device.

    Args:
        seen: Kind of an asked operator to how many ran in integers and how many in float.
    """

    seen: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def has(self, kernel: str) -> bool:
        """Whether operators of a kind run in integers: as most did, else as is believed."""
        integers, floats = self.seen.get(kernel, (0, 0))
        if integers == floats:
            return kernel.partition("(")[0] not in _WITHOUT
        return integers > floats

    def says_other_than(self, before: "Kernels") -> bool:
        """Whether any kind is now taken for the other."""
        return any(self.has(kernel) != before.has(kernel) for kernel in self.seen)

    def learned(self, graph: ir.Model, lowered: Lowered | None) -> "Kernels":
        """What is known with one more placement; the order of placements does not matter.

        Args:
            graph: What was built, unchanged.
            lowered: What the runtime made of it; nothing is learned where that is hidden.
        """
        if lowered is None or lowered.ran is None:
            return self
        seen = dict(self.seen)
        ran = _executed(graph, lowered)
        for node in graph.graph:
            kernel, layer = kernel_of(node), ran.get(node.name or "")
            if kernel and layer is not None:
                integers, floats = seen.get(kernel, (0, 0))
                if layer.precision in _INTEGER:
                    seen[kernel] = (integers + 1, floats)
                elif layer.precision in _FLOAT and _same(layer, node):
                    seen[kernel] = (integers, floats + 1)
        return Kernels(seen)


def is_coded(node: ir.Node) -> bool:
    """Whether a node is an integer operator as it is written, whatever the runtime makes of it."""
    return node.op_type in _CODED or (node.op_type in ACTIVATIONS and _codes(node.inputs[0]))


def kernel_of(node: ir.Node) -> str:
    """The kind of an operator that is asked for in integers by what stands around it, such as
    `Conv(uint8,int8)uint8`: types of the codes that it reads and makes. Empty where it is not."""
    if is_coded(node):
        return ""
    inputs = [value for value in node.inputs if value is not None and not is_constant(value)]
    if not inputs or not all(map(_dequantized, inputs)):
        return ""
    made = _codes_behind(node)
    weighted = node.op_type in PRODUCTS or node.op_type == "Conv"
    weight = node.inputs[1] if weighted and len(node.inputs) > 1 else None
    if weight is not None and is_constant(weight):
        coded = _dequantized(weight)
        return _kind(node, made) if coded and (made or node.op_type in PRODUCTS) else ""
    if made and node.op_type in ACTIVATIONS | ARITHMETIC | MOVING | JOINING | PRODUCTS:
        return _kind(node, made)
    return ""


def _dequantized(value: ir.Value) -> bool:
    """Whether a value comes from codes."""
    made = value.producer()
    return made is not None and made.op_type == "DequantizeLinear"


def _kind(node: ir.Node, made: str) -> str:
    values = (value for value in node.inputs if value is not None)
    makers = (value.producer() for value in values if _dequantized(value))
    types = dict.fromkeys(_type(maker) for maker in makers if maker is not None)
    return f"{node.op_type}({','.join(types)}){made}"


def _type(border: ir.Node) -> str:
    """Element type of the codes of a quantizer or dequantizer."""
    zero = border.inputs[2] if len(border.inputs) > 2 else None
    coded = border.inputs[0] if border.op_type == "DequantizeLinear" else border.outputs[0]
    for value in (zero, coded):
        if value is not None and value.dtype is not None:
            return value.dtype.name.lower()
    return "uint8"  # the type that the standard means where no zero point is given


def _codes_behind(node: ir.Node) -> str:
    """Type of the codes that a node's result becomes, an activation that is folded in between;
    empty where it is not quantized."""
    users = [user for user, _ in node.outputs[0].uses()]
    quantizer = next((user for user in users if user.op_type == "QuantizeLinear"), None)
    if quantizer is not None:
        return _type(quantizer)
    if len(users) != 1 or users[0].op_type not in ACTIVATIONS:
        return ""
    return _codes_behind(users[0]) if host_of(users[0]) is node else ""


def _codes(value: ir.Value | None) -> bool:
    made = None if value is None else value.producer()
    return made is not None and made.op_type == "QuantizeLinear"


def _executed(graph: ir.Model, lowered: Lowered) -> dict[str, Layer]:
    """Built node's name to what it was executed as; what the runtime fused away is missing."""
    known = {node.name for node in graph.graph if node.name}
    found: dict[str, Layer] = {}
    for layer in lowered.layers:
        if _bare(layer) not in QUANTIZERS:
            found.setdefault(built_name(layer.name, known), layer)
    return found


def _same(layer: Layer, node: ir.Node) -> bool:
    """Whether a layer is a node's own kernel in float, and no other one named after it."""
    return _bare(layer).removeprefix("Fused") == node.op_type


def _bare(layer: Layer) -> str:
    return layer.operator.rpartition(":")[2]
