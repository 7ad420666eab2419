"""`Weighted`: a float layer as repairs see it, and what stands opposite its weight.

    result = matrix @ columns + bias        a group; of a Conv at every place of its result

Conv (all kernel sizes, groups, depthwise), ConvTranspose, Gemm, and MatMul with a constant on the
right, whose bias is the constant of an Add behind it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.local_rule import floating, integer, integers, set_constant, word
from edgeopt.transforms.repair._windows import margins, taps

Array = npt.NDArray[Any]
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
KINDS = _CONVOLUTIONS | {"Gemm", "MatMul"}


@dataclass(frozen=True, slots=True)
class Weighted:
    """A layer with a constant float weight.

    Args:
        node: Conv, ConvTranspose, Gemm or MatMul.
        adds: The node whose input `bias_index` is the bias: the layer itself or an Add; None
            where nothing adds one.
        bias_index: See above.
    """

    node: ir.Node
    adds: ir.Node | None
    bias_index: int

    @property
    def source(self) -> ir.Value:
        """The activation that it reads."""
        found = self.node.inputs[0]
        assert found is not None, "layers read an activation"
        return found

    @property
    def result(self) -> ir.Value:
        """What it makes, bias included."""
        return (self.adds or self.node).outputs[0]

    @property
    def axis(self) -> int:
        """The channel axis of what it makes."""
        return 1 if self.node.op_type in _CONVOLUTIONS else -1

    @property
    def groups(self) -> int:
        """Of a convolution; 1 of others."""
        return integer(self.node, "group", 1) if self.node.op_type in _CONVOLUTIONS else 1

    @property
    def kernel(self) -> tuple[int, ...]:
        """Taps by axis; empty without a window."""
        return self._weight().shape[2:]

    def matrix(self) -> Array:
        """The weight as [groups, out / groups, in / groups * taps]."""
        weight, groups = self._weight(), self.groups
        if self.node.op_type == "ConvTranspose":
            weight = _as_convolution(weight, groups)
        elif self._transposed():
            weight = weight.T
        return weight.reshape(groups, weight.shape[0] // groups, -1)

    def bias(self) -> Array:
        """The bias [out]; zeros where none is added."""
        held = None if self.adds is None else array_of(self.adds.inputs[self.bias_index])
        matrix = self.matrix()
        out = matrix.shape[0] * matrix.shape[1]
        zeros = np.zeros(out, matrix.dtype)
        return zeros if held is None else np.broadcast_to(held.reshape(-1), (out,))

    def weight_from(self, matrix: Array) -> Array:
        """The constant that a matrix is, in the node's own layout."""
        held = self._weight()
        if self.node.op_type == "ConvTranspose":
            found = _as_transposed(matrix, held.shape, self.groups)
        else:
            out = matrix.shape[0] * matrix.shape[1]
            found = matrix.reshape(out, -1).T if self._transposed() else matrix.reshape(held.shape)
        return np.ascontiguousarray(found.astype(held.dtype))

    def bias_from(self, bias: Array) -> Array:
        """The constant that a bias [out] is, in the shape that it has."""
        assert self.adds is not None, "the caller looked"
        held = array_of(self.adds.inputs[self.bias_index])
        assert held is not None, "biases are constants"
        shape = held.shape if held.size == bias.size else bias.shape
        return bias.astype(held.dtype).reshape(shape)

    def _weight(self) -> Array:
        found = array_of(self.node.inputs[1])
        assert found is not None, "layers have constant weights"
        return found

    def _transposed(self) -> bool:
        """Whether the weight of a product is [in, out]."""
        kind = self.node.op_type
        return kind == "MatMul" or (kind == "Gemm" and not integer(self.node, "transB", 0))


def weighted(node: ir.Node) -> Weighted | None:
    """The layer of a node; None where it is none, or has what is not handled here."""
    if node.domain or node.op_type not in KINDS or node.inputs[0] is None:
        return None
    weight = array_of(node.inputs[1])
    if weight is None or weight.dtype != np.float32 or array_of(node.inputs[0]) is not None:
        return None
    if not _PLAIN[node.op_type](node, weight):
        return None
    if node.op_type == "MatMul":
        return Weighted(node, *_added(node, weight.shape[1]))
    held = array_of(node.inputs[2]) if len(node.inputs) > 2 else None
    return Weighted(node, None if held is None else node, 2)


def separate(editor: Editor) -> None:
    """Give every layer a weight and a bias of its own, under names of what it makes.

    Convolutions and Gemms without a bias get one of zeros: what is removed before them shifts
    the mean of what they make.
    """
    for node in list(editor.graph):
        layer = weighted(node)
        if layer is None:
            continue
        if layer.adds is None and node.op_type != "MatMul":
            out = layer.bias()
            _set(editor, node, 2, out)
            layer = Weighted(node, node, 2)
        weight = array_of(node.inputs[1])
        assert weight is not None, "the layer was looked at"
        _set(editor, node, 1, weight)
        if layer.adds is not None:
            held = array_of(layer.adds.inputs[layer.bias_index])
            assert held is not None, "the layer was looked at"
            _set(editor, layer.adds, layer.bias_index, held)


def _set(editor: Editor, node: ir.Node, index: int, array: Array) -> None:
    """Let a node read a constant that nobody else reads; the one that it has where it is so."""
    held = node.inputs[index] if index < len(node.inputs) else None
    if held is not None and held.is_initializer() and len(held.uses()) == 1:
        return
    set_constant(editor, node, index, f"{node.outputs[0].name}__own{index}", array)


def _added(node: ir.Node, out: int) -> tuple[ir.Node | None, int]:
    """The Add behind a MatMul whose other side is one number a column, and which input that is."""
    user = sole_user(node.outputs[0])
    if user is None or user.op_type != "Add" or user.domain:
        return None, 0
    index = 1 if user.inputs[0] is node.outputs[0] else 0
    held = array_of(user.inputs[index])
    fits = held is not None and held.dtype == np.float32 and held.size == out
    return (user, index) if fits and held is not None and held.shape[-1] == out else (None, 0)


def _plain_window(node: ir.Node, weight: Array) -> bool:
    return weight.ndim > 2


def _plain_transposed(node: ir.Node, weight: Array) -> bool:
    plain = word(node, "auto_pad", "NOTSET") == "NOTSET"
    return weight.ndim > 2 and plain and not integers(node, "output_shape")


def _plain_gemm(node: ir.Node, weight: Array) -> bool:
    scales = floating(node, "alpha", 1.0), floating(node, "beta", 1.0)
    return weight.ndim == 2 and scales == (1.0, 1.0) and not integer(node, "transA", 0)


def _plain_product(node: ir.Node, weight: Array) -> bool:
    return weight.ndim == 2


_PLAIN = {
    "Conv": _plain_window,
    "ConvTranspose": _plain_transposed,
    "Gemm": _plain_gemm,
    "MatMul": _plain_product,
}


def _as_convolution(weight: Array, groups: int) -> Array:
    """[in, out / groups, ...] as the weight [out, in / groups, ...] of the same convolution."""
    inputs, outputs, *taps = weight.shape
    parts = weight.reshape(groups, inputs // groups, outputs, *taps).swapaxes(1, 2)
    flipped = np.flip(parts, axis=tuple(range(3, parts.ndim)))
    return flipped.reshape(groups * outputs, inputs // groups, *taps)


def _as_transposed(matrix: Array, shape: tuple[int, ...], groups: int) -> Array:
    inputs, outputs, *taps = shape
    parts = matrix.reshape(groups, outputs, inputs // groups, *taps)
    return np.flip(parts, axis=tuple(range(3, parts.ndim))).swapaxes(1, 2).reshape(shape)


def columns(layer: Weighted, x: Array, sizes: tuple[int, ...], places: Array) -> Array:
    """What stands opposite the weight at some places of one sample: [groups, K, places].

    Args:
        layer: Whose weight.
        x: What it reads.
        sizes: Of what it makes, behind the channels: places count over batch and these.
        places: Flat indices [places].
    """
    node = layer.node
    if node.op_type not in _CONVOLUTIONS:
        return x.reshape(-1, x.shape[-1])[places].T[np.newaxis]
    if _is_pointwise(layer):
        flat = np.moveaxis(x, 1, 0).reshape(layer.groups, -1, x.size // x.shape[1])
        return flat[:, :, places]
    padded, strides, dilations = _opened(node, x, layer.kernel)
    batch, *start = np.unravel_index(places, (x.shape[0], *sizes))
    found = taps(padded, batch, start, kernel=layer.kernel, strides=strides, dilations=dilations)
    return found.reshape(len(places), layer.groups, -1).transpose(1, 2, 0)


def _is_pointwise(layer: Weighted) -> bool:
    """Whether it reads the very places that it makes."""
    node = layer.node
    steps = all(stride == 1 for stride in integers(node, "strides"))
    padded = any(integers(node, "pads"))
    return node.op_type == "Conv" and set(layer.kernel) == {1} and steps and not padded


def _opened(
    node: ir.Node, x: Array, kernel: tuple[int, ...]
) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
    """The padded activation, strides and dilations of the plain convolution that a node is."""
    axes = len(kernel)
    strides = integers(node, "strides") or (1,) * axes
    dilations = integers(node, "dilations") or (1,) * axes
    before, after = margins(node, x.shape[2:], kernel)
    if node.op_type == "ConvTranspose":
        more = integers(node, "output_padding") or (0,) * axes
        spans = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
        sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True)]
        spread = np.zeros((*x.shape[:2], *sizes), x.dtype)
        spread[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
        before = tuple(span - pad for span, pad in zip(spans, before, strict=True))
        after = tuple(s - p + m for s, p, m in zip(spans, after, more, strict=True))
        x, strides = _cropped(spread, before, after), (1,) * axes
        before, after = (tuple(max(p, 0) for p in side) for side in (before, after))
    if not any((*before, *after)):
        return x, strides, dilations
    inner = [slice(p, p + size) for p, size in zip(before, x.shape[2:], strict=True)]
    sizes = [p + n + q for p, n, q in zip(before, x.shape[2:], after, strict=True)]
    padded = np.zeros((*x.shape[:2], *sizes), x.dtype)
    padded[(slice(None), slice(None), *inner)] = x
    return padded, strides, dilations


def _cropped(x: Array, before: tuple[int, ...], after: tuple[int, ...]) -> Array:
    """Without what a negative margin takes away."""
    kept = [
        slice(max(-first, 0), size - max(-last, 0))
        for first, last, size in zip(before, after, x.shape[2:], strict=True)
    ]
    return x[(slice(None), slice(None), *kept)]
