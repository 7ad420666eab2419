"""An Einsum of two operands as a product of matrices.

    Einsum("BFNH,BTNH->BNFT", q, k)  =  MatMul(Transpose(q), Transpose(k))

Letters in both operands and the result are batches, letters in both operands alone are summed,
letters in one operand stay. The operands are transposed so that batches come first; the product
is transposed to the order of the result. Several letters that are summed or stay are read as one:

    Einsum("BTNH,NHD->BTD", x, w)  =  MatMul(Reshape(x, [B,T,NH]), Reshape(w, [NH,D]))

and a constant is laid out once and for all. So the projections of attention are written in Keras
and Flax, relative positions beside an image's rows and columns, graph convolutions.

It must not fire with other than two operands, with an ellipsis or a letter twice in one operand,
without a letter that is summed, without one that stays, with a letter that only one operand has
and the result lacks, or, of several letters, where sizes are not known to agree or two are free.
Imperative, since the equation is a language of its own. ONNX Runtime computes an Einsum by
transposing and multiplying, not fused with anything; measured 2.0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, refuse, word
from edgeopt.transforms.rewrite._around import Steps

_UNKNOWN = -1
"""The one size of a Reshape that follows from the others."""


@dataclass(frozen=True, slots=True)
class _Product:
    root: ir.Node
    operands: tuple[ir.Value, ir.Value]
    left: str
    right: str
    made: str
    batch: str
    row: str
    inner: str
    column: str

    @property
    def plain(self) -> bool:
        """Whether it is a product of matrices letter by letter."""
        return len(self.row) == len(self.inner) == len(self.column) == 1


def _match(root: ir.Node) -> _Product | Rejection:
    equation = word(root, "equation", "").replace(" ", "")
    sides = equation.split("->")
    letters = sides[0].split(",")
    operands = tuple(value for value in root.inputs if value is not None)
    if len(sides) != 2 or len(letters) != 2 or len(operands) != 2 or "." in equation:
        return refuse("it is no explicit product of two operands", root)
    left, right, made = *letters, sides[1]
    if any(len(set(each)) != len(each) for each in (left, right, made)):
        return refuse("a letter stands twice in one operand", root)
    found = _product_of(root, (operands[0], operands[1]), left, right, made)
    if not found.inner or not found.row + found.column:
        return refuse("it sums over no letter, or keeps none", root)
    if sorted(made) != sorted(found.batch + found.row + found.column):
        return refuse("a letter that the result lacks stands in one operand alone", root)
    if not found.plain:
        left_is_constant = array_of(operands[0]) is not None
        if left_is_constant and not found.batch and array_of(operands[1]) is None:
            found = _product_of(root, (operands[1], operands[0]), right, left, made)
        return found if _known(found) else refuse("sizes are not known to agree", root)
    return found


def _product_of(
    root: ir.Node, operands: tuple[ir.Value, ir.Value], left: str, right: str, made: str
) -> _Product:
    return _Product(
        root,
        operands,
        left,
        right,
        made,
        batch="".join(letter for letter in made if letter in left and letter in right),
        row="".join(letter for letter in left if letter not in right),
        inner="".join(letter for letter in left if letter in right and letter not in made),
        column="".join(letter for letter in right if letter not in left),
    )


def _sizes(found: _Product, letters: str) -> list[int]:
    """Sizes of letters as a Reshape is told them."""
    return [_size(found, letter) for letter in letters]


def _size(found: _Product, letter: str) -> int:
    for value, written in zip(found.operands, (found.left, found.right), strict=True):
        if letter in written and value.shape is not None:
            size = value.shape[written.index(letter)]
            if isinstance(size, int):
                return size
    return _UNKNOWN


def _known(found: _Product) -> bool:
    """Whether sizes that are summed are the same numbers, and one of the others is free at most."""
    for letter in found.inner:
        one, other = (
            None if value.shape is None else value.shape[written.index(letter)]
            for value, written in zip(found.operands, (found.left, found.right), strict=True)
        )
        if not isinstance(one, int) or one != other:
            return False
    if any(value.shape is None for value in found.operands):
        return False
    row, column = _sizes(found, found.row), _sizes(found, found.column)
    told = [*row, *column] if found.batch else column
    return told.count(_UNKNOWN) <= 1 and 0 not in told


def _rewrite(editor: Editor, found: _Product) -> None:
    steps = Steps(editor, "einsum_to_matmul", found.root)
    batch, row, inner, column = found.batch, found.row, found.inner, found.column
    one, other = found.operands
    left = _ordered(steps, "left", one, found.left, batch + row + inner)
    right = _ordered(steps, "right", other, found.right, batch + inner + column)
    merges = bool(batch) and len(row) != 1
    if not found.plain and (merges or len(inner) != 1):
        told = [_merged(found, row)] if batch else [0] * len(row)
        left = _told(steps, "left_flat", left, [*_copied(batch), *told, _merged(found, inner)])
    if not found.plain and (len(inner) != 1 or len(column) > 1 or (batch and not column)):
        told = [_merged(found, column)] if batch or column else []
        right = _told(steps, "right_flat", right, [*_copied(batch), _merged(found, inner), *told])
    product = steps.add("product", "MatMul", [left, right])
    letters, made = batch + row + column, found.root.outputs[0].shape
    if merges or len(column) > 1 or (batch and not column):
        rows = _sizes(found, row) if batch else [0] * len(row)
        told = [*_copied(batch), *rows, *_sizes(found, column)]
        product.shape = _flat_shape(found)
        product = _told(steps, "apart", product, told)
    if made is not None:
        product.shape = ir.Shape([made[found.made.index(letter)] for letter in letters])
    _ordered(steps, "result", product, letters, found.made)
    steps.finish()


def _flat_shape(found: _Product) -> ir.Shape | None:
    """Of a product whose letters are not told apart yet."""
    made = found.root.outputs[0].shape
    if made is None:
        return None
    kept = [made[found.made.index(letter)] for letter in found.batch]
    column = _merged(found, found.column)
    if found.batch:
        rows: list[int | ir.SymbolicDim | None] = [_merged(found, found.row)]
    else:
        rows = [made[found.made.index(letter)] for letter in found.row]
    sizes = [*kept, *rows, column]
    return ir.Shape([None if size == _UNKNOWN else size for size in sizes])


def _copied(batch: str) -> list[int]:
    return [0] * len(batch)


def _merged(found: _Product, letters: str) -> int:
    sizes = _sizes(found, letters)
    return _UNKNOWN if _UNKNOWN in sizes else prod(sizes)


def _told(steps: Steps, role: str, value: ir.Value, target: Sequence[int]) -> ir.Value:
    """A value with axes merged or told apart; a constant at once."""
    held = array_of(value)
    if held is not None:
        sizes = [held.shape[i] if size == 0 else size for i, size in enumerate(target)]
        return steps.constant(role, held.reshape(sizes))
    shape = steps.constant(f"{role}_shape", np.array(target, np.int64))
    known = value.shape
    sizes = [
        known[i] if size == 0 and known is not None else (None if size < 1 else size)
        for i, size in enumerate(target)
    ]
    return steps.add(role, "Reshape", [value, shape], sizes)


def _ordered(steps: Steps, role: str, value: ir.Value, have: str, want: str) -> ir.Value:
    """A value with its axes in another order; a constant at once."""
    if have == want:
        return value
    order = [have.index(letter) for letter in want]
    held = array_of(value)
    if held is not None:
        return steps.constant(role, held.transpose(order))
    shape = None if value.shape is None else [value.shape[axis] for axis in order]
    return steps.add(role, "Transpose", [value], shape, perm=order)


PLUGIN = LocalRule(
    name="einsum_to_matmul",
    roots=frozenset({"Einsum"}),
    match=_match,
    rewrite=_rewrite,
    opset=12,
)
