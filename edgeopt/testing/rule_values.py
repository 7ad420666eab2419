"""What operators draw that select places, or whose constants are numbers (see `rule_operators`)."""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.testing.rule_sketch import Made
from edgeopt.transforms.rules.terms import Attribute, Call, Const, Literal

if TYPE_CHECKING:
    from edgeopt.testing.rule_operators import Walker

Drawn = tuple[list[Made | None], dict[str, Attribute]]
Shape = tuple[int, ...]


def gather(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """One place, or two, along an axis."""
    del op_type
    x = w.some(call.inputs[0], hint if hint else (3,))
    axis = w.draw.integer(0, x.rank - 1)
    index = w.draw.integer(0, x.shape[axis] - 1)
    array = np.array(w.draw.pick((index, [index], [0, index])), np.int64)
    return [x, w.const(call.inputs[1], lambda: w.sketch.constant(array))], {"axis": axis}


def slices(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """A part of an axis, with bounds that may lie beyond it."""
    del op_type
    x = w.some(call.inputs[0], hint if hint else (3,))
    axis = w.draw.integer(0, x.rank - 1)
    start = w.draw.integer(0, x.shape[axis] - 1)
    end = w.draw.pick((x.shape[axis], w.draw.integer(start, x.shape[axis]) + 1, 2**31))
    numbers = (start, end, axis, w.draw.pick((1, 1, 1, 2)))
    rest = [
        w.const(term, lambda n=n: w.sketch.integers(n))
        for term, n in zip(call.inputs[1:], numbers, strict=False)
    ]
    return [x, *rest], {}


def where(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """A mask, drawn or given, and a number in its place, or before it."""
    del op_type
    turned = isinstance(call.inputs[1], Const)
    kept, filled = (2, 1) if turned else (1, 2)
    x = w.some(call.inputs[kept], hint if hint else (3,))
    sizes = w.draw.pick((x.shape, x.shape[-1:], (*(1,) * (x.rank - 1), *x.shape[-1:])))
    mask = np.arange(int(np.prod(sizes))).reshape(sizes) % 3 != w.draw.integer(0, 3)
    number = np.array(w.draw.pick((-1e9, -1e4, 0.0)))
    number = number.clip(-6e4).astype(w.sketch.dtype)
    if isinstance(call.inputs[0], Const):
        condition = w.const(call.inputs[0], lambda: w.sketch.constant(mask))
    else:
        condition = w.sketch.input(sizes, "bool")
    value = w.const(call.inputs[filled], lambda: w.sketch.constant(number))
    return [condition, value, x] if turned else [condition, x, value], {}


def topk(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Some of an axis, or all of it."""
    del op_type
    x = w.some(call.inputs[0], hint if hint else (3,))
    axis = w.draw.pick((-1, -1, x.rank - 1, 0))
    count = w.draw.integer(1, x.shape[axis])
    wanted = w.given(call.inputs[1], lambda: w.sketch.integers(count))
    return [x, wanted], {"axis": axis}


def clip(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Bounds, also such that exclude each other."""
    del op_type
    x = w.some(call.inputs[0], hint)
    bounds = (w.draw.pick((0.0, -1.0, 0.5)), w.draw.pick((1.0, 6.0, 0.25)))
    kind = w.sketch.dtype
    rest = [
        w.const(term, lambda b=b: w.sketch.constant(np.array(b, kind)))
        if not isinstance(term, Literal)
        else w.sketch.constant(np.array(term.value, kind))
        for term, b in zip(call.inputs[1:], bounds, strict=False)
    ]
    return [x, *rest], {}


def power(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """An exponent, of any rank."""
    del op_type
    x = w.some(call.inputs[0], hint)
    number = w.draw.pick((2.0, 3.0, 1.0, 0.0, 4.0, -1.0, 2.5))
    shape: Shape = w.draw.pick(((), (), (1,), (1,) * (x.rank + 1)))
    array = np.full(shape, number, w.sketch.dtype)
    return [x, w.const(call.inputs[1], lambda: w.sketch.constant(array))], {}


def sloped(w: "Walker", call: Call, op_type: str, hint: Shape) -> Drawn:
    """Slopes and offsets as attributes, or their defaults."""
    names = {"HardSigmoid": ("alpha", "beta"), "Gelu": (), "Swish": ("alpha",)}
    attributes: dict[str, Attribute] = {
        name: w.draw.pick((0.2, 0.5, 1.0, 1 / 6))
        for name in names.get(op_type, ("alpha",))
        if w.draw.integer(0, 1)
    }
    return [w.some(call.inputs[0], hint)], attributes
