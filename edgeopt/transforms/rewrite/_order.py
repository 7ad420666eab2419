"""Permutations of the positions of one axis, and the constants that follow one through a node."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import input_of, integer, integers, refuse
from edgeopt.transforms.rewrite._around import maker
from edgeopt.transforms.rewrite._batchnorm import normalises_batch
from edgeopt.transforms.rewrite._selection import selection_of

_POINTWISE = frozenset(
    {
        *("Relu", "LeakyRelu", "Clip", "HardSwish", "HardSigmoid", "Sigmoid", "Tanh", "Elu"),
        *("Gelu", "Softplus"),
    }
)
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
_WITH_CONSTANT = frozenset({"Add", "Sub", "Mul", "Div", "PRelu"})
_SHUFFLE = [0, 2, 1]


@dataclass(frozen=True, slots=True)
class Order:
    """A permutation.

    Args:
        root: The node that ends it.
        source: What is permuted.
        axis: Along which axis.
        places: For each position behind it, where it was before.
    """

    root: ir.Node
    source: ir.Value
    axis: int
    places: tuple[int, ...]

    @property
    def value(self) -> ir.Value:
        """What is permuted, behind the permutation."""
        return self.root.outputs[0]

    @property
    def back(self) -> list[int]:
        """For each position before it, where it is behind."""
        return np.argsort(self.places).tolist()


def order_of(root: ir.Node) -> Order | Rejection:
    """The permutation that a node ends: Gather, Slice, channel shuffle, or a Split joined anew."""
    if root.op_type == "Reshape":
        return _shuffled(root)
    if root.op_type == "Concat":
        return _joined(root)
    found, source = selection_of(root), root.inputs[0]
    if found is None or source is None or source.shape is None or found[1]:
        return refuse("it does not move known channels", root)
    axis, places = found[0].axis, found[0].indices
    if source.shape[axis] != len(places) or sorted(places) != list(range(len(places))):
        return refuse("it is no permutation", root)
    return Order(root, source, axis, places)


def _shuffled(root: ir.Node) -> Order | Rejection:
    transpose = maker(root, 0, "Transpose")
    split = None if transpose is None else maker(transpose, 0, "Reshape")
    source = None if split is None else split.inputs[0]
    if transpose is None or split is None or source is None:
        return refuse("it does not end a channel shuffle", root)
    before, between, after = (_sizes(v) for v in (source, split.outputs[0], root.outputs[0]))
    if before is None or between is None or before != after or len(between) != len(before) + 1:
        return refuse("it does not keep a known shape", root)
    kept = before[:1] == between[:1] and before[2:] == between[3:]
    rest = list(range(3, len(between)))
    if not kept or list(integers(transpose, "perm")) != [*_SHUFFLE, *rest]:
        return refuse("it moves more than channels", root)
    outer, inner = between[1], between[2]
    if not isinstance(outer, int) or not isinstance(inner, int):
        return refuse("it does not move known channels", root)
    places = tuple(row * inner + column for column in range(inner) for row in range(outer))
    return Order(root, source, 1, places)


def _sizes(value: ir.Value) -> tuple[int | str, ...] | None:
    """Sizes, free ones by their names; None where one has no name."""
    if value.shape is None:
        return None
    found = [size if isinstance(size, int) else size.value for size in value.shape]
    named = tuple(size for size in found if size is not None)
    return named if len(named) == len(found) else None


def _joined(root: ir.Node) -> Order | Rejection:
    """The parts of a Split in another order."""
    makers = {None if value is None else value.producer() for value in root.inputs}
    split = next(iter(makers))
    if len(makers) != 1 or split is None or split.op_type != "Split" or split.domain:
        return refuse("it does not join the parts of one Split", root)
    source, parts = split.inputs[0], [*split.outputs]
    alone = all(sole_user(part) is root for part in parts) and split.graph is root.graph
    if not alone or len(root.inputs) != len(parts) or source is None or source.shape is None:
        return refuse("it does not join all parts once", root)
    axis = integer(split, "axis", 0) % len(source.shape)
    sizes = [None if part.shape is None else part.shape[axis] for part in parts]
    numbers = [size for size in sizes if isinstance(size, int)]
    if integer(root, "axis", 0) % len(source.shape) != axis or len(numbers) != len(parts):
        return refuse("it does not move known channels", root)
    starts = np.cumsum([0, *numbers])
    ranges = {part: range(starts[i], starts[i + 1]) for i, part in enumerate(parts)}
    places = tuple(int(p) for value in root.inputs if value is not None for p in ranges[value])
    if places == tuple(range(len(places))):
        return refuse("it joins them as they were", root)
    return Order(root, source, axis, places)


@dataclass(frozen=True, slots=True)
class Follow:
    """What a permutation means for one of its readers.

    Args:
        constants: Input and axis of those that go the same way.
        axis: Where the result is permuted; None where a layer takes the permutation in.
    """

    constants: tuple[tuple[int, int], ...]
    axis: int | None


def constants_in_order(user: ir.Node, index: int, axis: int, count: int) -> Follow | None:
    """What follows a permutation into a reader; None where it cannot.

    Args:
        user: The reader.
        index: As which input.
        axis: Along which axis it is permuted.
        count: How many positions there are.
    """
    value = user.inputs[index]
    if value is None or value.shape is None or len(user.outputs) != 1:
        return None
    found = _with_constant if user.op_type in _WITH_CONSTANT else _plain
    follow = found(user, index, axis, len(value.shape), count)
    if follow is None:
        return None
    arrays = [(array_of(user.inputs[number]), place) for number, place in follow.constants]
    fits = all(array is not None and array.shape[place] == count for array, place in arrays)
    return follow if fits else None


def _with_constant(user: ir.Node, index: int, axis: int, rank: int, count: int) -> Follow | None:
    array = array_of(user.inputs[1 - index])
    if array is None or array.ndim > rank or (user.op_type == "PRelu" and index):
        return None
    place = array.ndim - (rank - axis)
    alike = place < 0 or array.shape[place] == 1
    # A constant may not make more positions of one.
    fits = alike or array.shape[place] == count
    return Follow(() if alike else ((1 - index, place),), axis) if fits else None


def _plain(user: ir.Node, index: int, axis: int, rank: int, count: int) -> Follow | None:
    kind, channels = user.op_type, axis == 1 and rank > 2
    if index:
        return None
    if kind in _POINTWISE or (kind in _POOLS and channels):
        return Follow((), axis)
    if kind == "Transpose":
        order = integers(user, "perm") or tuple(range(rank))[::-1]
        return Follow((), order.index(axis))
    if kind == "BatchNormalization" and axis == 1 and not normalises_batch(user):
        return Follow(tuple((number, 0) for number in range(1, 5)), axis)
    if kind == "Conv" and channels:
        return _conv(user, count)
    if kind == "MatMul" and axis == rank - 1:
        weight = array_of(input_of(user, 1))
        return Follow(((1, 0),), None) if weight is not None and weight.ndim == 2 else None
    if kind == "Gemm" and axis == 1 and not integer(user, "transA", 0):
        return Follow(((1, 1 if integer(user, "transB", 0) else 0),), None)
    return None


def _conv(conv: ir.Node, count: int) -> Follow | None:
    if integer(conv, "group", 1) == 1:
        return Follow(((1, 1),), None)
    weight = array_of(input_of(conv, 1))
    depthwise = integer(conv, "group", 1) == count
    if not depthwise or weight is None or weight.shape[:2] != (count, 1):
        return None
    bias = () if input_of(conv, 2) is None else ((2, 0),)
    return Follow(((1, 0), *bias), 1)
