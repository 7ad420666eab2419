"""Where a selection of positions along one axis of a node's output has to be made in its inputs.

A node is row-wise along an axis of its output where every output position reads the same position
of its inputs, or inputs that have no such axis.
"""

from collections.abc import Callable

import onnx_ir as ir

from edgeopt.graph.editor import array_of
from edgeopt.transforms.local_rule import input_of, integer, integers

Axes = dict[int, int]
"""Input number to the axis of that input that has to be selected; other inputs stay."""

UNARY = frozenset(
    {
        "Relu",
        "LeakyRelu",
        "Elu",
        "Selu",
        "Celu",
        "Sigmoid",
        "HardSigmoid",
        "HardSwish",
        "Tanh",
        "Erf",
        "Gelu",
        "Softplus",
        "Softsign",
        "Mish",
        "Exp",
        "Log",
        "Sqrt",
        "Reciprocal",
        "Neg",
        "Abs",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
        "Not",
        "Sin",
        "Cos",
        "Cast",
        "Identity",
        "Clip",
    }
)
"""Operators of one value whose every element is a function of the same element."""
_BROADCAST = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Min",
        "Max",
        "Where",
        "Equal",
        "Less",
        "Greater",
        "LessOrEqual",
        "GreaterOrEqual",
        "And",
        "Or",
        "PRelu",
        "Sum",
        "Mean",
    }
)
_REDUCE = frozenset({"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"})


def axes_before(node: ir.Node, axis: int) -> Axes | None:
    """The axes of the inputs for an axis of the first output; None where it is not row-wise."""
    if node.domain or len(node.outputs) != 1 or node.outputs[0].shape is None:
        return None
    if node.op_type in UNARY:
        return {0: axis}
    if node.op_type in _BROADCAST:
        return _broadcast(node, axis)
    found = _KINDS.get("Reduce" if node.op_type in _REDUCE else node.op_type)
    return None if found is None else found(node, axis)


def rank_of(value: ir.Value | None) -> int | None:
    """Number of axes; None where it is not known."""
    return None if value is None or value.shape is None else len(value.shape)


def _same(one: object, other: object) -> bool:
    """Whether two dimensions are proven equal: numbers, or the same name."""
    if isinstance(one, ir.SymbolicDim) and one.value is None:
        return False
    return one == other


def _broadcast(node: ir.Node, axis: int) -> Axes | None:
    made = node.outputs[0].shape
    assert made is not None, "the caller knows it"
    found: Axes = {}
    for index, value in enumerate(node.inputs):
        if value is None or value.shape is None:
            return None
        own = axis - (len(made) - len(value.shape))
        if own < 0 or value.shape[own] == 1 != made[axis]:
            continue
        if not _same(value.shape[own], made[axis]):
            return None
        found[index] = own
    return found


def _reduce(node: ir.Node, axis: int) -> Axes | None:
    rank, given = rank_of(node.inputs[0]), array_of(input_of(node, 1))
    if rank is None or (given is None and input_of(node, 1) is not None):
        return None
    listed = integers(node, "axes") if given is None else tuple(int(one) for one in given)
    gone = {one % rank for one in listed}
    if not gone:
        return None
    if integer(node, "keepdims", 1):
        return None if axis in gone else {0: axis}
    return {0: [one for one in range(rank) if one not in gone][axis]}


def _softmax(node: ir.Node, axis: int) -> Axes | None:
    rank = rank_of(node.inputs[0])
    if rank is None or integer(node, "axis", -1) % rank == axis:
        return None
    return {0: axis}


def _layer_norm(node: ir.Node, axis: int) -> Axes | None:
    rank = rank_of(node.inputs[0])
    if rank is None or axis >= integer(node, "axis", -1) % rank:
        return None
    return {0: axis}


def _matmul(node: ir.Node, axis: int) -> Axes | None:
    left, right, made = *(rank_of(value) for value in node.inputs), rank_of(node.outputs[0])
    if left is None or right is None or made is None or left < 2 or right < 2:
        return None
    if axis == made - 1:
        return {1: right - 1}
    if axis == made - 2:
        return {0: left - 2}
    return _broadcast(node, axis)


def _gemm(node: ir.Node, axis: int) -> Axes | None:
    made = node.outputs[0].shape
    assert made is not None, "the caller knows it"
    flipped = integer(node, "transB" if axis else "transA", 0)
    found: Axes = {axis: 1 - axis if flipped else axis}
    bias = input_of(node, 2)
    if bias is not None:
        if bias.shape is None:
            return None
        own = axis - (2 - len(bias.shape))
        if own >= 0 and bias.shape[own] != 1:
            found[2] = own
    return found


def _transpose(node: ir.Node, axis: int) -> Axes | None:
    order = integers(node, "perm")
    return {0: order[axis]} if order else None


def _conv(node: ir.Node, axis: int) -> Axes | None:
    """Batch; output channels, in the weights; positions of a kernel of one tap."""
    weight = node.inputs[1]
    if axis == 0:
        return {0: 0}
    if axis == 1:
        if integer(node, "group", 1) != 1:
            return None
        return {1: 0} if input_of(node, 2) is None else {1: 0, 2: 0}
    if weight is None or weight.shape is None:
        return None
    # SAME pads nothing at one tap and stride 1, and VALID nothing at all.
    spatial, place = len(weight.shape) - 2, axis - 2
    pads = integers(node, "pads") or (0,) * (2 * spatial)
    strides = integers(node, "strides") or (1,) * spatial
    whole = weight.shape[axis] == 1 and strides[place] == 1
    return {0: axis} if whole and not pads[place] and not pads[place + spatial] else None


def _unsqueeze(node: ir.Node, axis: int) -> Axes | None:
    given, rank = array_of(input_of(node, 1)), rank_of(node.outputs[0])
    if given is None or rank is None:
        return None
    new = {int(one) % rank for one in given}
    return None if axis in new else {0: axis - sum(one < axis for one in new)}


def _squeeze(node: ir.Node, axis: int) -> Axes | None:
    given, rank = array_of(input_of(node, 1)), rank_of(node.inputs[0])
    if given is None or rank is None:
        return None
    gone = {int(one) % rank for one in given}
    return {0: [one for one in range(rank) if one not in gone][axis]}


def _reshape(node: ir.Node, axis: int) -> Axes | None:
    """An axis that keeps its size and everything before it, or everything behind it."""
    source, made, target = node.inputs[0], node.outputs[0].shape, array_of(input_of(node, 1))
    if source is None or source.shape is None or made is None or target is None:
        return None
    old = source.shape
    before = axis < len(old) and all(_same(old[i], made[i]) for i in range(axis + 1))
    if before:
        return {0: axis}
    behind = _product(made[axis + 1 :])
    for own in range(len(old)):
        if behind is not None and old[own] == made[axis] and _product(old[own + 1 :]) == behind:
            # A 0 at that place of the target would copy the size that changes.
            copies = own != axis and own < len(target) and int(target[own]) == 0
            known = isinstance(old[own], int) and old[own] != 1
            return {0: own} if known and not copies else None
    return None


def _product(sizes: object) -> int | None:
    total = 1
    for size in sizes:  # type: ignore[attr-defined]
        if not isinstance(size, int):
            return None
        total *= size
    return total


_KINDS: dict[str, Callable[[ir.Node, int], Axes | None]] = {
    "Reduce": _reduce,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Transpose": _transpose,
    "Conv": _conv,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
}
