"""Products with constant matrices, one behind the other or side by side, as one.

    (x A) B  =  x (A B)      x A + x B  =  x (A + B)      c (x A + a) B  =  x (c A B) + c a B

Whatever is linear in one x is read together: MatMul and Gemm with constant weights, constants
added or multiplied between, sums of such readings of the same x. So adapters of low rank that
were not merged before the export become part of the layer beside them.

It must not fire with one product only, where something else reads a value between, where the
product would take more multiplications than all that it replaces (a narrow middle is a low-rank
factor), or where weights are no constants.
Imperative, since the number of products is open. ONNX Runtime does nothing of it; measured 1.6-2.0
(one behind the other) and 1.8 (side by side).
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, floating, input_of, integer, refuse
from edgeopt.transforms.rewrite._around import Steps, constant_operand, rows

Floats = npt.NDArray[np.float64]
_TWO = 2
_ROOTS = frozenset({"MatMul", "Gemm", "Add", "Mul"})


@dataclass(frozen=True, slots=True)
class _Linear:
    """`source @ weight + bias`; without a weight the source itself, times a number."""

    source: ir.Value
    weight: Floats | None = None
    bias: Floats | None = None
    factor: float = 1.0
    products: int = 0
    cost: int = 0


def _reading(value: ir.Value, *, top: bool = False) -> _Linear | None:
    """A value as linear in another, as far up as it goes; None where it is not."""
    node = value.producer()
    plain = _Linear(value)
    if node is None or node.domain or not (top or sole_user(value)):
        return plain
    if node.op_type == "MatMul":
        return _product(node) or plain
    if node.op_type == "Gemm":
        return _gemm(node) or plain
    if node.op_type == "Add" and constant_operand(node) is None:
        return _sum(node) or plain
    if node.op_type in {"Add", "Mul"}:
        return _constant(node) or plain
    return plain


def _width(reading: _Linear) -> int | None:
    if reading.weight is not None:
        return reading.weight.shape[1]
    shape = reading.source.shape
    last = None if not shape else shape[-1]
    return last if isinstance(last, int) else None


def _product(node: ir.Node) -> _Linear | None:
    weight, source = array_of(node.inputs[1]), node.inputs[0]
    if weight is None or weight.ndim != _TWO or source is None or array_of(source) is not None:
        return None
    if not source.shape or len(source.shape) < _TWO:
        return None
    return _behind(source, weight.astype(np.float64))


def _gemm(node: ir.Node) -> _Linear | None:
    weight, source, held = array_of(node.inputs[1]), node.inputs[0], input_of(node, 2)
    bias = array_of(held)
    if weight is None or source is None or integer(node, "transA", 0):
        return None
    wide = weight.astype(np.float64).T if integer(node, "transB", 0) else weight.astype(np.float64)
    made = _behind(source, wide * floating(node, "alpha", 1.0))
    if held is None:
        return made
    row = None if bias is None else rows(bias, 1, wide.shape[1])
    return None if row is None or made is None else _plus(made, row * floating(node, "beta", 1.0))


def _behind(source: ir.Value, weight: Floats) -> _Linear | None:
    inner = _reading(source)
    cost = weight.size
    if inner is None or _width(inner) != weight.shape[0]:
        return None
    if inner.weight is None:
        shift = None if inner.bias is None else inner.bias @ weight
        return _Linear(inner.source, inner.factor * weight, shift, 1.0, 1, cost)
    shift = None if inner.bias is None else inner.bias @ weight
    return _Linear(
        inner.source, inner.weight @ weight, shift, 1.0, inner.products + 1, inner.cost + cost
    )


def _plus(reading: _Linear, row: Floats) -> _Linear:
    return replace(reading, bias=row if reading.bias is None else reading.bias + row)


def _constant(node: ir.Node) -> _Linear | None:
    found = constant_operand(node)
    if found is None:
        return None
    value, array = found
    inner = _reading(value)
    size = None if inner is None else _width(inner)
    if inner is None or size is None or array.ndim > len(value.shape or ()):
        return None
    row = rows(array, 1, size)
    if row is None or (inner.weight is None and node.op_type == "Mul" and array.size != 1):
        return None
    if node.op_type == "Add":
        return _plus(inner, row)
    bias = None if inner.bias is None else inner.bias * row
    if inner.weight is None:
        return replace(inner, factor=inner.factor * float(row[0]), bias=bias)
    return replace(inner, weight=inner.weight * row, bias=bias)


def _sum(node: ir.Node) -> _Linear | None:
    readings = [None if value is None else _reading(value) for value in node.inputs]
    one, other = readings
    if one is None or other is None or one.source is not other.source:
        return None
    if one.weight is None or other.weight is None or one.weight.shape != other.weight.shape:
        return None
    made = replace(
        one,
        weight=one.weight + other.weight,
        products=one.products + other.products,
        cost=one.cost + other.cost,
    )
    return made if other.bias is None else _plus(made, other.bias)


def _count(node: ir.Node | None, *, top: bool = True) -> int:
    """Products with constants that a reading of a node can hold at most."""
    if node is None or node.domain or not (top or sole_user(node.outputs[0])):
        return 0
    if node.op_type in {"MatMul", "Gemm"}:
        weight = node.inputs[1]
        constant = weight is not None and weight.const_value is not None
        return 1 + _behind_input(node, 0) if constant else 0
    if node.op_type == "Add":
        return _behind_input(node, 0) + _behind_input(node, 1)
    return max(_behind_input(node, 0), _behind_input(node, 1)) if node.op_type == "Mul" else 0


def _behind_input(node: ir.Node, index: int) -> int:
    value = input_of(node, index)
    return 0 if value is None else _count(value.producer(), top=False)


def _match(root: ir.Node) -> tuple[ir.Node, _Linear] | Rejection:
    found = _found(root)
    user = sole_user(root.outputs[0])
    if user is not None and user.op_type in _ROOTS and not isinstance(_found(user), Rejection):
        return refuse("what follows takes it in", root)
    return found if isinstance(found, Rejection) else (root, found)


def _found(root: ir.Node) -> _Linear | Rejection:
    source = input_of(root, 0)
    if source is None or source.dtype != ir.DataType.FLOAT:
        return refuse("it is not in float32", root)
    # Counted first: reading computes weights.
    found = _reading(root.outputs[0], top=True) if _count(root) >= _TWO else None
    if found is None or found.weight is None or found.products < _TWO:
        return refuse("it is no chain or sum of two products with constants", root)
    if found.weight.size > found.cost:
        text = f"{found.weight.size} multiplications a row instead of {found.cost}"
        return refuse(text, root)
    return found


def _rewrite(editor: Editor, match: tuple[ir.Node, _Linear]) -> None:
    root, found = match
    assert found.weight is not None, "the match has one"
    steps = Steps(editor, "compose_products", root)
    weight = steps.constant("weight", found.weight.astype(np.float32))
    shape = root.outputs[0].shape
    bias = None if found.bias is None else steps.constant("bias", found.bias.astype(np.float32))
    if found.source.shape is not None and len(found.source.shape) == _TWO:
        inputs = [found.source, weight, *([] if bias is None else [bias])]
        steps.add("product", "Gemm", inputs, shape)
    else:
        made = steps.add("product", "MatMul", [found.source, weight], shape)
        if bias is not None:
            steps.add("sum", "Add", [made, bias], shape)
    steps.finish()


PLUGIN = LocalRule(
    name="compose_products",
    roots=_ROOTS,
    match=_match,
    rewrite=_rewrite,
    opset=11,
)
