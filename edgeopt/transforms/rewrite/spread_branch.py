"""Channels that are the same at every position, multiplied at one position.

    Conv1x1(Concat(x, Spread(g)), [A B])       =  Conv1x1(x, A) + Conv1x1(g, B)
    MatMul(Concat(x, Spread(g)), [A; B]) + c   =  MatMul(x, A) + (MatMul(g, B) + c)

Spread is a Resize of planes of one pixel, or an Expand or Tile along any axes of size 1: the image
pooling of ASPP, a global context beside local features, the statistics beside the frames of a
speaker encoder, the shape beside its points, a decoder's state beside what it attends to. The sum
is broadcast.

It must not fire with a larger kernel, stride, padding or groups, where something else reads the
Concat, where channels are repeated too, or where everything that is joined is spread.
Imperative, since the number of inputs of the Concat is open. ONNX Runtime does nothing of it;
measured 1.4 (planes).
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, input_of, integer, refuse
from edgeopt.transforms.rewrite._around import Steps, constant_operand, maker
from edgeopt.transforms.rewrite._convolution import constants_of, why_not_pointwise

_SPREADING = frozenset({"Resize", "Expand", "Tile"})


@dataclass(frozen=True, slots=True)
class _Spread:
    layer: ir.Node
    last: ir.Node
    """The layer, or the sum of its bias where that is a node of its own."""
    joined: tuple[ir.Value, ...]
    sizes: tuple[int, ...]
    pixels: tuple[ir.Value | None, ...]
    """For each that is joined the value that it is spread from, or None."""
    axis: int
    weight: npt.NDArray[Any]
    bias: ir.Value | None


def _pixel(value: ir.Value, axis: int) -> ir.Value | None:
    """What a value repeats along other axes than that of the channels."""
    node = value.producer()
    source = None if node is None else node.inputs[0]
    if node is None or node.domain or node.op_type not in _SPREADING or source is None:
        return None
    small, large = source.shape, value.shape
    if small is None or large is None or len(small) != len(large) or small[axis] != large[axis]:
        return None
    spread = {i for i, size in enumerate(small) if size == 1 != large[i]}
    if not spread or not all(_kept(node, i) for i in range(len(small)) if i not in spread):
        return None
    return source if node.op_type != "Resize" or _replicates(node, small) else None


def _kept(node: ir.Node, axis: int) -> bool:
    """Whether an axis keeps its size; inference renames a free one behind such a node."""
    source, made = node.inputs[0], node.outputs[0]
    assert source is not None, "the caller knows it"
    assert source.shape is not None, "the caller knows it"
    assert made.shape is not None, "the caller knows it"
    one, other = source.shape[axis], made.shape[axis]
    if isinstance(one, int) or (one.value is not None and one == other):
        return one == other
    given = array_of(input_of(node, 2 if node.op_type == "Resize" else 1))
    if given is None or given.size != len(made.shape):
        return False
    return float(given.reshape(-1)[axis]) == 1


def _replicates(resize: ir.Node, small: ir.ShapeProtocol) -> bool:
    """Whether a Resize of one pixel holds that pixel everywhere."""
    # Beyond the borders there is a number of its own.
    mode = resize.attributes.get("coordinate_transformation_mode")
    cropped = mode is not None and mode.as_string() == "tf_crop_and_resize"
    cubic = resize.attributes.get("mode")
    plain = not cropped and (cubic is None or cubic.as_string() != "cubic")
    return plain and all(size == 1 for size in small[2:])


def _match(layer: ir.Node) -> _Spread | Rejection:
    concat, made = maker(layer, 0, "Concat"), layer.outputs[0].shape
    if concat is None or made is None:
        return refuse("it does not read a Concat of its own", layer)
    weight = _weight(layer)
    if isinstance(weight, Rejection):
        return weight
    rank, axis = len(made), 1 if layer.op_type == "Conv" else len(made) - 1
    joined = tuple(value for value in concat.inputs if value is not None)
    shapes = [value.shape for value in joined]
    sizes = [shape[axis] for shape in shapes if shape is not None and len(shape) == rank]
    known = [size for size in sizes if isinstance(size, int)]
    if integer(concat, "axis", 0) not in {axis, axis - rank} or len(known) != len(joined):
        return refuse("it does not join a known number of channels", concat)
    pixels = tuple(_pixel(value, axis) for value in joined)
    alone = [value for value, pixel in zip(joined, pixels, strict=True) if pixel is None]
    if len(alone) == len(joined) or not alone:
        return refuse("none, or everything, is spread from one position", concat)
    last, bias = (layer, input_of(layer, 2)) if layer.op_type == "Conv" else _sum(layer)
    return _Spread(layer, last, joined, tuple(known), pixels, axis, weight, bias)


def _weight(layer: ir.Node) -> npt.NDArray[Any] | Rejection:
    """The weight of a pointwise convolution or of a product, where it is a constant."""
    if layer.op_type == "Conv":
        constants = constants_of(layer)
        if isinstance(constants, Rejection):
            return constants
        return why_not_pointwise(layer, constants[0]) or constants[0]
    weight = array_of(input_of(layer, 1))
    if weight is None or weight.ndim != 2:
        return refuse("the weight is no constant matrix", layer)
    return weight


def _sum(product: ir.Node) -> tuple[ir.Node, ir.Value | None]:
    """The bias that is added to a product, and the node that does."""
    user = sole_user(product.outputs[0])
    if user is None or user.op_type != "Add" or user.domain:
        return product, None
    found = constant_operand(user)
    if found is None or found[1].ndim > 1:
        return product, None
    return user, next(value for value in user.inputs if value is not product.outputs[0])


def _rewrite(editor: Editor, found: _Spread) -> None:
    steps = Steps(editor, "spread_branch", found.last)
    shape = found.layer.outputs[0].shape
    kept: list[ir.Value] = []
    kept_rows: list[int] = []
    pixels: list[tuple[ir.Value, list[int]]] = []
    start = 0
    for value, size, pixel in zip(found.joined, found.sizes, found.pixels, strict=True):
        rows = list(range(start, start + size))
        start += size
        if pixel is None:
            kept.append(value)
            kept_rows += rows
        else:
            pixels.append((pixel, rows))
    local = kept[0]
    if len(kept) > 1:
        sizes = _with(kept[0].shape, found.axis, len(kept_rows))
        local = steps.add("local", "Concat", kept, sizes, axis=found.axis)
    weight = steps.constant("weight", found.weight.take(kept_rows, axis=_side(found)))
    total = _product(steps, "positions", found, local, weight)
    points: ir.Value | None = None
    for index, (pixel, rows) in enumerate(pixels):
        weight = steps.constant(f"weight_{index}", found.weight.take(rows, axis=_side(found)))
        point = _product(steps, f"pixel_{index}", found, pixel, weight, first=index == 0)
        if points is None:
            points = point
        else:
            points = steps.add(f"points_{index}", "Add", [points, point], _wider(points, point))
    steps.add("sum_0", "Add", [total, points], shape)
    steps.finish()


def _product(
    steps: Steps,
    role: str,
    found: _Spread,
    source: ir.Value,
    weight: ir.Value,
    *,
    first: bool = False,
) -> ir.Value:
    """The layer on some of the channels, with its bias where it is the first at one position."""
    convolves = found.layer.op_type == "Conv"
    made = found.weight.shape[1 - _side(found)]
    sizes, bias = _with(source.shape, found.axis, made), found.bias if first else None
    inputs = [source, weight, *([bias] if bias is not None and convolves else [])]
    value = steps.add(role, found.layer.op_type, inputs, sizes)
    if bias is None or convolves:
        return value
    return steps.add(f"{role}_sum", "Add", [value, bias], sizes)


def _side(found: _Spread) -> int:
    """The axis of the weight that reads channels."""
    return 1 if found.layer.op_type == "Conv" else 0


def _wider(one: ir.Value, other: ir.Value) -> list[object] | None:
    """The shape of a sum of two values of one rank."""
    if one.shape is None or other.shape is None:
        return None
    return [b if a == 1 else a for a, b in zip(one.shape, other.shape, strict=True)]


def _with(shape: ir.ShapeProtocol | None, axis: int, size: int) -> list[object] | None:
    """A shape with another size of one axis."""
    if shape is None:
        return None
    return [size if index == axis else each for index, each in enumerate(shape)]


PLUGIN = LocalRule(
    name="spread_branch", roots=frozenset({"Conv", "MatMul"}), match=_match, rewrite=_rewrite
)
