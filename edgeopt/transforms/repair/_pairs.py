"""`Pair`: a quantize/dequantize pair whose scale belongs to one value alone.

Pairs of values that share a scale (joined, moved, or read at another scale) are not among them:
to change one of those is to change all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.groups import JOINING, MOVING
from edgeopt.transforms.repair._layers import Layer
from edgeopt.transforms.repair._repair import Constants

_CODES = {"uint8": (0, 255), "int8": (-127, 127)}


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair, and the integer layers that read it.

    Args:
        value: The float value before it.
        quantize: QuantizeLinear.
        readers: Integer layers whose activation it is.
        others: Whether anything else reads it.
    """

    value: ir.Value
    quantize: ir.Node
    readers: tuple[Layer, ...]
    others: bool

    @property
    def scale(self) -> float:
        """As it is."""
        found = array_of(self.quantize.inputs[1])
        assert found is not None, "pairs have constant scales"
        return float(found)

    @property
    def zero(self) -> int:
        """The code of 0."""
        found = array_of(self.quantize.inputs[2])
        assert found is not None, "pairs have constant zero points"
        return int(found)

    @property
    def codes(self) -> tuple[int, int]:
        """The lowest and the highest code."""
        found = array_of(self.quantize.inputs[2])
        assert found is not None, "pairs have constant zero points"
        return _CODES[found.dtype.name]

    def put_scale(self, constants: Constants, scale: float) -> None:
        """Another scale, and the biases of its readers in it; the code of 0 stays."""
        held = self.quantize.inputs[1]
        assert held is not None, "pairs have scales"
        constants.put(held, np.asarray(scale, np.float32))
        for layer in self.readers:
            layer.rescale_bias(constants, float(np.float32(scale)))


def pairs(graph: ir.Graph, levels: Sequence[Sequence[Layer]]) -> list[Pair]:
    """Pairs that have a scale of their own and whose readers include a layer, in graph order."""
    by_node = {layer.node: layer for level in levels for layer in level}
    found = [_pair(node, by_node) for node in graph if node.op_type == "QuantizeLinear"]
    return [pair for pair in found if pair is not None and pair.readers]


def _pair(quantize: ir.Node, by_node: dict[ir.Node, Layer]) -> Pair | None:
    value, constants = quantize.inputs[0], quantize.inputs[1:3]
    ends = _ends(quantize)
    if value is None or not ends or len(constants) < 2:
        return None
    if any(not _is_scalar(one) for one in constants):
        return None
    if any(tuple(end.inputs[1:3]) != tuple(constants) for end in ends):
        return None
    if any(user is not quantize and user not in ends for user, _ in _uses(constants[0])):
        return None
    readers = [user for end in ends for user, _ in end.outputs[0].uses()]
    producer = value.producer()
    around = [*readers, *(() if producer is None else (producer,))]
    if any(node.op_type in MOVING | JOINING for node in around):
        return None
    layers = tuple(dict.fromkeys(by_node[user] for user in readers if user in by_node))
    raw = any(user is not quantize for user, _ in value.uses())
    seen = raw or value.is_graph_output() or any(end.outputs[0].is_graph_output() for end in ends)
    return Pair(value, quantize, layers, seen or len(layers) < len(set(readers)))


def _ends(quantize: ir.Node) -> list[ir.Node]:
    """Every DequantizeLinear of the codes, also of moved ones; none where others read them."""
    found: list[ir.Node] = []
    waiting = [user for user, _ in quantize.outputs[0].uses()]
    while waiting:
        node = waiting.pop()
        if node.op_type == "DequantizeLinear":
            found.append(node)
        elif node.op_type in ("Reshape", "Transpose"):
            waiting += [user for user, _ in node.outputs[0].uses()]
        elif node.op_type != "Shape":
            return []
    return found


def _uses(value: ir.Value | None) -> Sequence[tuple[ir.Node, int]]:
    return () if value is None else tuple((use.node, use.idx) for use in value.uses())


def _is_scalar(value: ir.Value | None) -> bool:
    array = array_of(value)
    return value is not None and value.is_initializer() and array is not None and array.size == 1
