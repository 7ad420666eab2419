"""The spellings of gates and of products that exporters write, and the operator for them."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, new_node, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import floating, input_of, refuse, site_of

TOLERANCE = 1e-6
"""How far a literal (1/6 in seven digits) may be from what it stands for."""
_HALF_TOLERANCE = 2.0**-10
"""The same in float16, relative: two literals of eleven binary digits in one product."""
TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})
"""Precisions that activations have kernels for."""


@dataclass(frozen=True, slots=True)
class Spelled:
    """One operator of one input, written as several.

    Args:
        root: The last of the several.
        operator: What they are.
        source: Its input.
        attributes: Of the operator.
    """

    root: ir.Node
    operator: str
    source: ir.Value
    attributes: Mapping[str, float | str]


def spelled(
    root: ir.Node, operator: str, source: ir.Value, **attributes: float | str
) -> Spelled | Rejection:
    """What was found, where the runtime has a kernel for its precision."""
    if source.dtype not in TYPES:
        return refuse(f"no kernel for {source.dtype}", root)
    return Spelled(root, operator, source, attributes)


def write_operator(editor: Editor, found: Spelled) -> None:
    """Put the operator in the place of its root."""
    old = found.root.outputs[0]
    made = new_node(
        found.operator,
        [found.source],
        output=f"{site_of(found.root)}/{found.operator.lower()}",
        attributes=dict(found.attributes),
        like=old,
    )
    editor.insert([made], before=found.root)
    editor.replace_value(old, made.outputs[0])
    editor.remove_dead([found.root])


@dataclass(frozen=True, slots=True)
class Gate:
    """`factor * clip(alpha * x + beta, 0, 1)`, with alpha > 0.

    Args:
        source: x.
        alpha: Slope.
        beta: Offset.
        factor: What the whole is multiplied with.
    """

    source: ir.Value
    alpha: float
    beta: float
    factor: float


def close(one: float, other: float, beside: ir.Value) -> bool:
    """Equal up to the rounding of a literal in the precision of the value beside it."""
    if beside.dtype is ir.DataType.FLOAT16:
        return abs(one - other) <= _HALF_TOLERANCE * abs(other)
    return abs(one - other) <= TOLERANCE * max(1.0, abs(other))


def scalar(value: ir.Value | None, beside: ir.Value | None = None) -> float | None:
    """The number in a constant with one element; None where it is none.

    Args:
        value: Maybe a constant.
        beside: The other operand: a constant of a higher rank would change its shape.
    """
    array = array_of(value)
    if array is None or array.size != 1 or array.dtype.kind != "f":
        return None
    if array.ndim > 0:
        shape = None if beside is None else beside.shape
        if shape is None or len(shape) < array.ndim:
            return None
    return float(array.reshape(()))


@dataclass(frozen=True, slots=True)
class Affine:
    """`factor * source + offset`."""

    source: ir.Value
    factor: float = 1.0
    offset: float = 0.0


def affine(value: ir.Value) -> tuple[Affine, ...]:
    """Readings of a value as affine, deepest first: an Add or Sub, and the Mul or Div before it.

    There are several, since x may be a product itself: 4z + 3 is affine in z, and in x = 4z.
    """
    outer = step_of(value)
    if outer is None:
        return (Affine(value),)
    inner = step_of(outer.source) if outer.factor == 1.0 else None
    if inner is None or inner.offset:
        return (outer,)
    return Affine(inner.source, inner.factor, outer.offset), outer


def step_of(value: ir.Value) -> Affine | None:
    """What one Add, Sub, Mul or Div with a scalar constant does; None for any other node."""
    node = value.producer()
    if node is None or node.domain or len(node.inputs) != 2:
        return None
    left, right = node.inputs
    if left is None or right is None:
        return None
    if node.op_type in {"Add", "Mul"} and scalar(right, left) is None:
        left, right = right, left
    number = scalar(right, left)
    if number is None:
        return None
    match node.op_type:
        case "Add":
            return Affine(left, offset=number)
        case "Sub":
            return Affine(left, offset=-number)
        case "Mul":
            return Affine(left, factor=number)
        case "Div" if number:
            return Affine(left, factor=1.0 / number)
        case _:
            return None


def gates_of(value: ir.Value) -> tuple[Gate, ...]:
    """Readings of a value as a hard sigmoid, deepest first.

    It is the operator itself, or a Clip from 0 of a rising line.
    """
    node = value.producer()
    source = None if node is None else input_of(node, 0)
    if node is None or node.domain or source is None:
        return ()
    if node.op_type == "HardSigmoid":
        alpha, beta = floating(node, "alpha", 0.2), floating(node, "beta", 0.5)
        return (Gate(source, alpha, beta, 1.0),) if alpha > 0 else ()
    top = _clipped_from_zero(node)
    if top is None:
        return ()
    return tuple(
        Gate(line.source, line.factor / top, line.offset / top, top)
        for line in affine(source)
        if line.factor > 0
    )


def is_sixth(gate: Gate) -> bool:
    """Whether it rises from -3 to 3: the gate of a hard swish."""
    return close(gate.alpha, 1 / 6, gate.source) and close(gate.beta, 1 / 2, gate.source)


def _clipped_from_zero(node: ir.Node) -> float | None:
    """The upper bound of a Clip whose lower bound is 0."""
    if node.op_type != "Clip":
        return None
    if "min" in node.attributes or "max" in node.attributes:
        low, high = floating(node, "min", -1.0), floating(node, "max", 0.0)
    else:
        # Exporters write bounds of shape [1] too, and the runtime takes them as numbers.
        source = input_of(node, 0)
        low, high = (scalar(input_of(node, index), source) for index in (1, 2))
    if low != 0 or high is None or high <= 0:
        return None
    return high


def factors_of(value: ir.Value, *, top: bool = True) -> tuple[list[ir.Value], float]:
    """A product flattened: the values that are multiplied, and the number before them.

    Stops at values with several users. x is one (gate and product read it), so that an x that is
    a product itself stays whole.
    """
    node = value.producer()
    if node is None or node.domain or not (top or sole_user(value)):
        return [value], 1.0
    step = step_of(value)
    if step is not None and not step.offset:
        values, number = factors_of(step.source, top=False)
        return values, number * step.factor
    left, right = (*node.inputs, None, None)[:2]
    if node.op_type != "Mul" or left is None or right is None:
        return [value], 1.0
    one, first = factors_of(left, top=False)
    two, second = factors_of(right, top=False)
    return [*one, *two], first * second
