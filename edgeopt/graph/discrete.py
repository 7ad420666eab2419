"""Operators whose result jumps: where they stand, and how near to a jump their operands are.

Two graphs that agree to the last bits can still give another ArgMax where two classes tie. What
must agree are the operands; a jump is forgiven where the operands were that near to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.data import Array

_FLOATS = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16, None}
_RANKED = {"ArgMax", "ArgMin", "TopK", "Hardmax", "NonMaxSuppression"}
_COMPARED = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}
_ROUNDED = {"Round", "Floor", "Ceil"}
_AT_ZERO = {"Sign", "NonZero"}
_SHAPES_ONLY = {"Shape", "Size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """The first discrete operator on a path from the inputs.

    Args:
        operator: Its type.
        operands: Names of the float values that it decides on.
        output: Name of its first output.
        axis: Of what ranks along an axis.
    """

    operator: str
    operands: tuple[str, ...]
    output: str
    axis: int = -1


def first_jumps(graph: ir.Model) -> dict[str, tuple[Jump, ...]]:
    """Output name to the first discrete operators above it; outputs without any are absent.

    Only the main graph is searched, and only operators that decide on floats computed from the
    graph's inputs: shape arithmetic and integer inputs do not count.
    """
    computed: set[ir.Value] = {v for v in graph.graph.inputs if not v.is_initializer()}
    above: dict[ir.Value, tuple[Jump, ...]] = {}
    for node in graph.graph:
        inputs = [value for value in node.inputs if value is not None]
        depends = any(value in computed for value in inputs) or _holds_graph(node)
        if not depends or node.op_type in _SHAPES_ONLY:
            continue
        found = dict.fromkeys(jump for value in inputs for jump in above.get(value, ()))
        operands = _operands(node, computed)
        if not found and operands and _is_discrete(node):
            jump = Jump(
                operator=_kind(node),
                operands=operands,
                output=node.outputs[0].name or "",
                axis=_axis(node),
            )
            found = {jump: None}
        for output in node.outputs:
            computed.add(output)
            if found:
                above[output] = tuple(found)
    return {v.name or "": above[v] for v in graph.graph.outputs if v in above}


def may_flip(jump: Jump, values: Mapping[str, Array], margin: float) -> npt.NDArray[np.bool_]:
    """Where a discrete result may differ: within the margin of a jump.

    Returns:
        Flat, one entry an element of the result; or a single entry that says whether anything may
        differ, for operators whose result is no element-wise answer (TopK, NonMaxSuppression).
    """
    if jump.operator in _COMPARED:
        left, right = (values[name] for name in jump.operands)
        return np.ravel(np.abs(left - right) <= margin)
    operand = values[jump.operands[-1]]
    if jump.operator in _RANKED:
        return _close_ranks(operand, jump, margin)
    distance = np.abs(operand)
    if jump.operator in _ROUNDED:
        shift = 0.5 if jump.operator == "Round" else 0.0
        distance = np.abs(operand - shift - np.round(operand - shift))
    return np.ravel(distance <= margin)


def _close_ranks(operand: Array, jump: Jump, margin: float) -> npt.NDArray[np.bool_]:
    """Lines along the axis in which neighbours in rank are within the margin."""
    if operand.ndim == 0 or operand.shape[jump.axis] < 2:
        return np.zeros(1, bool)
    gaps = np.diff(np.sort(operand, axis=jump.axis), axis=jump.axis)
    if jump.operator == "ArgMax":
        last: Array = gaps.take(-1, axis=jump.axis)
        return np.ravel(last <= margin)
    if jump.operator == "ArgMin":
        first: Array = gaps.take(0, axis=jump.axis)
        return np.ravel(first <= margin)
    return np.array([bool(np.any(gaps <= margin))])


def _kind(node: ir.Node) -> str:
    """The operator, with a Cast by what it does: cut off decimals, or tell zero from the rest."""
    if node.op_type != "Cast":
        return node.op_type
    target = ir.DataType(node.attributes["to"].as_int())
    return "Cast" if target == ir.DataType.BOOL else "Floor"


def _operands(node: ir.Node, computed: set[ir.Value]) -> tuple[str, ...]:
    """Float inputs that depend on the graph's inputs; a comparison has both sides."""
    inputs = [value for value in node.inputs if value is not None]
    floats = [v.name or "" for v in inputs if v in computed and v.dtype in _FLOATS]
    if floats and node.op_type in _COMPARED:
        return tuple(value.name or "" for value in inputs)
    return tuple(floats)


def _is_discrete(node: ir.Node) -> bool:
    if node.domain:
        return False
    if node.op_type == "Cast":
        return ir.DataType(node.attributes["to"].as_int()) not in _FLOATS
    return node.op_type in _RANKED | _COMPARED | _ROUNDED | _AT_ZERO


def _axis(node: ir.Node) -> int:
    default = 0 if node.op_type in {"ArgMax", "ArgMin"} else -1
    held = node.attributes.get("axis")
    return default if held is None else held.as_int()


def _holds_graph(node: ir.Node) -> bool:
    return any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values())
