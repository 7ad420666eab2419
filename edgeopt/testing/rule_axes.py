"""What operators draw that join, split, order or count axes (see `rule_operators`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeopt.testing.rule_sketch import Made, Undrawable
from edgeopt.testing.rule_values import Drawn, Shape
from edgeopt.transforms.rules.terms import Attribute, Call, Tensor

if TYPE_CHECKING:
    from edgeopt.testing.rule_operators import Walker

_BACK = 2
_ORDERS = ((0, 3, 4, 1, 5, 2), (0, 1, 4, 2, 5, 3), (0, 3, 5, 1, 2, 4))
"""Of the axes of blocks of two by two: to pixels in two ways, and back."""


def concat(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Parts of any width along an axis, most often the channels."""
    del op_type
    first = w.some(call.inputs[0], hint if len(hint) > 1 else (2, 3))
    axis = w.draw.pick((1, 1, 1, -1, 0, first.rank - 1))
    inputs: list[Made | None] = [first]
    for term in call.inputs[1:]:
        shape = list(first.shape)
        shape[axis] = w.draw.pick((1, 2, shape[axis]))
        inputs.append(w.some(term, tuple(shape)))
    return inputs, {"axis": axis}


def split(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Parts of any width along an axis, most often the channels."""
    del op_type
    count, fresh = call.outputs, isinstance(call.inputs[0], Tensor)
    axis = w.draw.pick((1, 1, 0, -1)) if len(hint) > 1 else 0
    parts = [w.draw.integer(1, 3)] * count if w.draw.integer(0, 1) else []
    parts = parts or [w.draw.integer(1, 3) for _ in range(count)]
    shape = list(hint or (1,))
    if fresh:
        shape[axis] = sum(parts)
    x = w.some(call.inputs[0], tuple(shape))
    axis = axis if -x.rank <= axis < x.rank else x.rank - 1
    if x.rank == 0 or x.shape[axis] < count:
        raise Undrawable("there are not so many parts")
    if x.shape[axis] != sum(parts):
        parts = [x.shape[axis] // count] * count
        parts[w.draw.integer(0, count - 1)] += x.shape[axis] - sum(parts)
    attributes: dict[str, Attribute] = {"axis": axis} if axis or w.draw.integer(0, 1) else {}
    sizes = w.const(call.inputs[1], lambda: w.sketch.integers(*parts)) if call.inputs[1:] else None
    if sizes is None and w.sketch.opset >= 18:
        attributes["num_outputs"] = count
    return [x, sizes], attributes


def transpose(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Any order of the axes, the batch in front half of the time."""
    del op_type
    x = w.some(call.inputs[0], hint)
    order = list(range(x.rank))
    left: list[int] = []
    if x.rank == 6 and w.sketch.often():
        known = w.alike.get("Reshape")
        left = list(w.draw.pick(_ORDERS) if known is None else _ORDERS[known[0][0]])
        order = []
    elif order and w.draw.integer(0, 1):
        left.append(order.pop(0))
    while order:
        left.append(order.pop(w.draw.integer(0, len(order) - 1)))
    return [x], {"perm": left} if w.sketch.often() else {}


def shaped(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """A value, and integers that say what shape, repetitions, padding or axes it gets."""
    if op_type == "Reshape" and len(hint) == 4 and w.draw.integer(0, 1):
        hint = (hint[0], *(w.draw.pick(sizes) for sizes in ((4, 8), (2, 4), (2, 4, 6))))
    x = w.some(call.inputs[0], hint)
    made = w.given(call.inputs[1], lambda: w.sketch.integers(*_numbers(w, op_type, x.shape)))
    rest = [w.value(term, ()) for term in call.inputs[2:]]
    return [x, made, *rest], {}


def _numbers(w: "Walker", op_type: str, shape: Shape) -> Sequence[int]:
    rank = len(shape)
    if op_type == "Reshape" and rank in (4, 6) and w.draw.integer(0, 5) < rank - 1:
        return _blocks(w, shape)
    if op_type == "Reshape":
        return w.draw.pick(((0, -1), (-1,), (1, *shape), shape, (*shape[:1], -1, 1)))
    if op_type == "Expand":
        return [w.draw.pick((1, 2, 3)) if size == 1 else size for size in shape]
    if op_type == "Tile":
        return [w.draw.pick((1, 1, 2)) for _ in shape]
    if op_type == "Pad":
        return [w.draw.pick((0, 0, 1)) for _ in range(2 * rank)]
    if op_type == "Squeeze":
        return [axis for axis, size in enumerate(shape) if size == 1][:1] or [0]
    return [w.draw.integer(0, rank)]


def _blocks(w: "Walker", shape: Shape) -> Sequence[int]:
    """Planes cut into squares of two by two, or put together from them."""
    if len(shape) == 4:
        n, c, h, v = shape
        kind = w.draw.integer(0, 2)
        w.alike["Reshape"] = (kind,), {}
        cut = ((n, 2, 2, c // 4, h, v), (n, c // 4, 2, 2, h, v), (n, c, h // 2, 2, v // 2, 2))
        return cut[kind]
    n, a, b, c, d, e = shape
    made = ((n, a, b * c, d * e), (n, a * b * c, d, e))
    known = w.alike.get("Reshape")
    return w.draw.pick(made) if known is None else made[known[0][0] == _BACK]
