"""A squeeze-and-excite gate held at its mean over the calibration samples.

    x · g(mean(x))  ≈  x · m        m[c]: mean of channel c of g over the samples

What computed g goes: the mean over the map, two small layers, their activations. Where only
convolutions read the product, m goes into their weights and the product is gone as well. Unlike
exact rules it may lose accuracy, and a small set of samples does not show how much (of nine gates
of a text line classifier, two thirds held cost 1.9 points on fresh lines and nothing on the lines
they were chosen on), so every gate is a decision of its own.

It must not fire where g is not one number a
channel computed from the mean of a map, where something else than one product reads it, where x is
one pixel itself, or where x is one sample for a batch of gates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import integer, refuse, set_constant
from edgeopt.transforms.prune._held_at_mean import HeldAtMean

_BOUNDED = frozenset({"Sigmoid", "HardSigmoid", "Clip"})
_MOVING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_INSIDE = _BOUNDED | {
    *("Conv", "Gemm", "MatMul", "BatchNormalization", "Add", "Sub", "Mul", "Div"),
    *("Relu", "LeakyRelu", "PRelu", "Elu", "HardSwish", "Tanh", "Identity"),
}
_LEAST_RANK = 3
_SPATIAL = 2


@dataclass(frozen=True, slots=True)
class _Gated:
    """A product of a map and a gate.

    Args:
        product: The Mul.
        index: Which of its inputs leads to the gate.
        gate: [N, C, 1, ...].
        source: The map, [N, C, ...].
        width: C.
        rank: Of both.
    """

    product: ir.Node
    index: int
    gate: ir.Value
    source: ir.Value
    width: int
    rank: int

    @property
    def axis(self) -> int:
        """Of the channels."""
        return 1


def _held(editor: Editor, found: _Gated, mean: npt.NDArray[Any]) -> None:
    """Hold the gate, and fold it into what reads the product where that can take it."""
    readers = _convolutions(found.product)
    if readers:
        _fold(editor, found, readers, mean)
    else:
        _hold(editor, found, mean)


def _gates(model: ir.Model) -> list[ir.Value]:
    found = (_gate_of(node) for node in model.graph if node.op_type == "Mul")
    return [one for one in found if one is not None and not isinstance(_match(one), Rejection)]


def _gate_of(product: ir.Node) -> ir.Value | None:
    """The factor of one pixel a channel, as it was before it was spread over the map."""
    for value in product.inputs:
        before = None if value is None else _before_resize(value)
        if before is not None and array_of(before) is None and _is_pixel(before):
            return before
    return None


def _before_resize(value: ir.Value) -> ir.Value:
    node = value.producer()
    if node is None or node.op_type != "Resize" or node.domain:
        return value
    return node.inputs[0] or value


def _is_pixel(value: ir.Value) -> bool:
    shape = value.shape
    if shape is None or len(shape) < _LEAST_RANK:
        return False
    return isinstance(shape[1], int) and all(size == 1 for size in shape[_SPATIAL:])


def _match(gate: ir.Value) -> _Gated | Rejection:
    node, shape = gate.producer(), gate.shape
    nodes = () if node is None else (node,)
    if shape is None or not _is_pixel(gate):
        return refuse("it is not one pixel a channel", *nodes)
    user = sole_user(gate)
    if user is not None and user.op_type == "Resize" and not user.domain:
        user = sole_user(user.outputs[0])
    if user is None or user.op_type != "Mul" or user.domain:
        return refuse("something else than one product reads it", *nodes)
    for index, value in enumerate(user.inputs):
        source = user.inputs[1 - index]
        if value is None or source is None or _before_resize(value) is not gate:
            continue
        if source.shape is None or len(source.shape) != len(shape) or _is_pixel(source):
            return refuse("the other factor is no map", user)
        if not isinstance(width := shape[1], int) or source.shape[1] != width:
            return refuse("channels broadcast too", user)
        made = user.outputs[0].shape
        if made is None or made[0] != source.shape[0]:
            return refuse("the batch broadcasts too", user)
        if not _is_gate(gate):
            return refuse("it is not computed from the mean of a map alone", user)
        return _Gated(user, index, gate, source, width, len(shape))
    return refuse("both factors come from it", user)


def _is_gate(value: ir.Value) -> bool:
    """Whether a value is a bounded function of means over maps, and of constants."""
    waiting, seen = [value], {value}
    bounded = pooled = False
    while waiting:
        node = waiting.pop().producer()
        if node is None or node.domain:
            return False
        if _pools(node):
            pooled = True
            continue
        if node.op_type not in _INSIDE | _MOVING:
            return False
        bounded |= node.op_type in _BOUNDED
        inputs = node.inputs[:1] if node.op_type in _MOVING else node.inputs
        more = [one for one in inputs if one is not None and array_of(one) is None]
        waiting += [one for one in more if one not in seen]
        seen.update(more)
    return bounded and pooled


def _pools(node: ir.Node) -> bool:
    """Whether it takes the mean over all axes behind the channels."""
    if node.op_type == "GlobalAveragePool":
        return True
    source = node.inputs[0] if node.op_type == "ReduceMean" else None
    if source is None or source.shape is None:
        return False
    rank = len(source.shape)
    held = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
    axes = node.attributes.get_ints("axes") if held is None else held.tolist()
    return sorted(int(axis) % rank for axis in axes or ()) == list(range(_SPATIAL, rank))


def _convolutions(product: ir.Node) -> list[ir.Node]:
    """What reads the product, where all of it are convolutions with a weight of their own."""
    made = product.outputs[0]
    readers = list(dict.fromkeys(user for user, _ in made.uses()))
    fit = all(
        node.op_type == "Conv" and not node.domain and array_of(node.inputs[1]) is not None
        for node in readers
    )
    alone = all(index == 0 for _, index in made.uses())
    return readers if fit and alone and not made.is_graph_output() else []


def _fold(
    editor: Editor, found: _Gated, readers: Sequence[ir.Node], mean: npt.NDArray[Any]
) -> None:
    made = found.product.outputs[0]
    for node in readers:
        weight = array_of(node.inputs[1])
        assert weight is not None, "only convolutions with constant weights fold"
        name = f"{node.outputs[0].name}/static_gate/weight"
        set_constant(editor, node, 1, name, _scaled(weight, integer(node, "group", 1), mean))
    editor.replace_uses(made, found.source)
    editor.remove_dead([found.product])


def _scaled(weight: npt.NDArray[Any], groups: int, mean: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A weight [out, in / groups, ...] that reads x as it would read x · mean."""
    outputs, inputs = weight.shape[:2]
    scales = np.repeat(mean.reshape(groups, inputs), outputs // groups, axis=0)
    scales = scales.reshape(outputs, inputs, *(1,) * (weight.ndim - 2))
    return (weight * scales).astype(weight.dtype)


def _hold(editor: Editor, found: _Gated, mean: npt.NDArray[Any]) -> None:
    dtype = np.dtype(np.float32 if found.gate.dtype is None else found.gate.dtype.numpy())
    spread = (1, found.width, *(1,) * (found.rank - _SPATIAL))
    held = mean.astype(dtype).reshape(spread)
    set_constant(editor, found.product, found.index, f"{found.gate.name}/static_gate", held)


PLUGIN = HeldAtMean(
    name="static_gate",
    values=_gates,
    match=_match,
    hold=_held,
    unknown="no calibration sample says what this gate is",
)
