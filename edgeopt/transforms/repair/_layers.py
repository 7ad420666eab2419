"""`Layer`: an integer layer as repairs see it: its constants behind DequantizeLinear.

    result = Dequantize(x) * Dequantize(weight codes) + Dequantize(bias codes)

The scale of an int32 bias is that of the activation times that of the weight, channel by channel;
whoever changes one of them changes the bias with it (`rescale_bias`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.groups import (
    float_users,
    is_bias,
    is_quantized,
    is_weighted,
    name_of,
)
from edgeopt.transforms.repair._repair import Constants

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_ROWS, _PIXELS = "__matrix", "__product"
"""Behind the name of a value, as `static_qdq` names the integer Gemm that makes it."""
_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Layer:
    """An integer Conv, Gemm or MatMul.

    Args:
        node: The weighted node.
        weight: DequantizeLinear of its int8 or uint8 weight.
        bias: DequantizeLinear of its int32 bias; None without one.
        result: What it makes, bias included.
    """

    node: ir.Node
    weight: ir.Node
    bias: ir.Node | None
    result: ir.Value

    @property
    def name(self) -> str:
        """Of what it makes, as in the float graph, also where it stands there as a matrix."""
        return name_of(self.result).removesuffix(_PIXELS).removesuffix(_ROWS)

    @property
    def float_axis(self) -> int:
        """The channel axis of what it makes and reads in the float graph."""
        return 1 if name_of(self.result).endswith(_PIXELS) else self.axis

    @property
    def float_source(self) -> ir.Value:
        """The float value whose codes it reads."""
        found = _origin(self.source)
        assert found is not None, "layers read codes"
        return found[0]

    def arranged(self, array: Array) -> Array:
        """An array in the shape of `float_source` as the layer reads it, but for leading axes."""
        found = _origin(self.source)
        for order in () if found is None else found[1]:
            array = np.transpose(array, order)
        return array

    @property
    def axis(self) -> int:
        """The channel axis of what it makes."""
        return 1 if self.node.op_type == "Conv" else -1

    @property
    def source(self) -> ir.Value:
        """The dequantized activation that it reads."""
        found = self.node.inputs[0]
        assert found is not None, "weighted nodes read an activation"
        return found

    @property
    def transposed(self) -> bool:
        """Whether its weight is [in, out]."""
        kind = self.node.op_type
        return kind == "MatMul" or (
            kind == "Gemm" and not self.node.attributes.get_int("transB", 0)
        )

    @property
    def groups(self) -> int:
        """Of a convolution; 1 of others."""
        return self.node.attributes.get_int("group", 1) if self.node.op_type == "Conv" else 1

    def scale(self) -> Floats:
        """Of the weight, one a channel."""
        scale, codes = self._array(self.weight, 1), self._array(self.weight, 0)
        size = codes.shape[1] if self.transposed else codes.shape[0]
        return np.broadcast_to(scale.astype(np.float64).reshape(-1), (size,))

    def codes(self) -> npt.NDArray[np.int64]:
        """Of the weight around 0 [out, in, ...]."""
        codes = self._array(self.weight, 0).astype(np.int64) - self._middle()
        return codes.T if self.transposed else codes

    def limit(self) -> int:
        """The largest code: 127, or 63 where the range is reduced."""
        return 63 if np.abs(self.codes()).max(initial=0) <= 63 else 127

    def bias_values(self) -> Floats | None:
        """The bias in real values; None without one."""
        if self.bias is None:
            return None
        scale = self._array(self.bias, 1).astype(np.float64)
        return self._array(self.bias, 0).astype(np.float64) * scale

    def put_weight(self, constants: Constants, codes: Array) -> None:
        """Other codes around 0 [out, in, ...] at the same scales."""
        held = self._array(self.weight, 0)
        made = (codes + self._middle()).astype(held.dtype)
        made = np.ascontiguousarray(made.T if self.transposed else made)
        constants.put(_constant(self.weight, 0), made)

    def put_weight_scale(self, constants: Constants, scale: Floats) -> None:
        """Other scales of the weight [out]; the bias is not touched."""
        constants.put(_constant(self.weight, 1), scale.astype(np.float32))

    def put_bias(self, constants: Constants, values: Floats) -> Floats:
        """A bias in real values at the scale that it has; returns what it became."""
        assert self.bias is not None, "the caller looked"
        scale = self._array(self.bias, 1).astype(np.float64)
        codes = np.clip(np.rint(values / scale), -_LIMIT, _LIMIT).astype(np.int32)
        constants.put(_constant(self.bias, 0), codes)
        return codes.astype(np.float64) * scale

    def rescale_bias(
        self, constants: Constants, source_scale: float, values: Floats | None = None
    ) -> None:
        """Bring the bias to the scale of the activation times that of the weight.

        Args:
            constants: Where it is put.
            source_scale: Of the activation.
            values: The bias in real values; as it is by default.
        """
        wanted = self.bias_values() if values is None else values
        if self.bias is None or wanted is None:
            return
        held = self._array(self.bias, 1)
        scale = (self._array(self.weight, 1).astype(np.float64) * source_scale).astype(np.float32)
        constants.put(_constant(self.bias, 1), scale.reshape(held.shape))
        self.put_bias(constants, wanted)

    def _array(self, node: ir.Node, index: int) -> Array:
        found = array_of(node.inputs[index])
        assert found is not None, "layers are made of constants"
        return found

    def _middle(self) -> int:
        zero = array_of(self.weight.inputs[2]) if len(self.weight.inputs) > 2 else None
        return 0 if zero is None or not zero.size else int(zero.reshape(-1)[0])


def layers(graph: ir.Graph) -> list[list[Layer]]:
    """Integer layers by depth: none depends on another of its level."""
    depth: dict[ir.Value, int] = {}
    levels: dict[int, list[Layer]] = {}
    for node in graph:
        deepest = max((depth.get(v, 0) for v in node.inputs if v is not None), default=0)
        layer = _layer(node)
        if layer is not None:
            levels.setdefault(deepest, []).append(layer)
            deepest += 1
        depth |= dict.fromkeys(node.outputs, deepest)
    return [levels[level] for level in sorted(levels)]


def float_weight(layer: Layer, reference: ir.Model) -> Floats:
    """The weight before quantization [out, in, ...]; from its codes where it is not known."""
    codes = layer.codes()
    coded = codes * layer.scale().reshape(-1, *[1] * (codes.ndim - 1))
    node, _ = _float_nodes(layer, reference)
    weight = None if node is None else array_of(node.inputs[1])
    if weight is None or node is None:
        return coded
    if node.op_type == "MatMul" or (
        node.op_type == "Gemm" and not node.attributes.get_int("transB", 0)
    ):
        weight = weight.T
    if weight.size != coded.size or weight.shape[0] != coded.shape[0]:
        return coded
    return weight.reshape(coded.shape).astype(np.float64)


def float_bias(layer: Layer, reference: ir.Model) -> Floats | None:
    """The bias before quantization [out]; None where it is not known."""
    node, add = _float_nodes(layer, reference)
    if add is not None:
        found = next((array for v in add.inputs if (array := array_of(v)) is not None), None)
    else:
        found = array_of(node.inputs[2]) if node is not None and len(node.inputs) > 2 else None
    values = layer.bias_values()
    if found is None or values is None or found.size != values.size:
        return None
    return found.reshape(-1).astype(np.float64)


def _float_nodes(layer: Layer, reference: ir.Model) -> tuple[ir.Node | None, ir.Node | None]:
    """The weighted node of the float graph that became a layer, and the Add of its bias."""
    node = next((n for n in reference.graph if name_of(n.outputs[0]) == layer.name), None)
    if node is None or not is_bias(node):
        return (node if node is not None and is_weighted(node) else None), None
    made = [value.producer() for value in node.inputs if value is not None]
    return next((one for one in made if one is not None and is_weighted(one)), None), node


def _origin(value: ir.Value | None) -> tuple[ir.Value, list[list[int]]] | None:
    """The float value whose codes are dequantized here, and the transpositions between."""
    made = None if value is None else value.producer()
    if made is None or made.op_type != "DequantizeLinear":
        return None
    scale, orders = made.inputs[1], list[list[int]]()
    made = None if made.inputs[0] is None else made.inputs[0].producer()
    while made is not None and made.op_type in ("Reshape", "Transpose"):
        if made.op_type == "Transpose":
            orders.append([int(axis) for axis in made.attributes.get_ints("perm", [])])
        made = None if made.inputs[0] is None else made.inputs[0].producer()
    if made is None or made.op_type != "QuantizeLinear" or made.inputs[0] is None:
        return None
    return (made.inputs[0], orders[::-1]) if made.inputs[1] is scale else None


def _layer(node: ir.Node) -> Layer | None:
    if not is_weighted(node) or not is_quantized(node) or node.inputs[0] is None:
        return None
    weight = _dequantized(node.inputs[1], ("int8", "uint8"))
    if weight is None or _origin(node.inputs[0]) is None:
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = _dequantized(node.inputs[2], ("int32",))
        # A float bias, as TensorRT wants it, would not follow the scales of its layer.
        return None if bias is None else Layer(node, weight, bias, node.outputs[0])
    added = [user for user in float_users(node.outputs[0]) if is_bias(user)]
    if added:
        found = [_dequantized(value, ("int32",)) for value in added[0].inputs]
        bias = next((one for one in found if one is not None), None)
        if bias is not None:
            return Layer(node, weight, bias, added[0].outputs[0])
    return Layer(node, weight, None, node.outputs[0])


def _dequantized(value: ir.Value | None, types: tuple[str, ...]) -> ir.Node | None:
    """The DequantizeLinear behind which a constant of one of the types lies."""
    made = None if value is None else value.producer()
    if made is None or made.op_type != "DequantizeLinear" or array_of(made.inputs[1]) is None:
        return None
    codes = array_of(made.inputs[0])
    initial = made.inputs[0] is not None and made.inputs[0].is_initializer()
    return made if initial and codes is not None and codes.dtype.name in types else None


def _constant(node: ir.Node, index: int) -> ir.Value:
    found = node.inputs[index]
    assert found is not None, "layers are made of constants"
    return found
