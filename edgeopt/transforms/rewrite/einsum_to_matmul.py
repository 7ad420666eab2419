"""An Einsum of two operands as a product of matrices.

    Einsum("BFNH,BTNH->BNFT", q, k)  =  MatMul(Transpose(q), Transpose(k))

Letters in both operands and the result are batches, letters in both operands alone are summed,
letters in one operand stay. The operands are transposed so that batches come first; the product
is transposed to the order of the result.

It must not fire with other than two operands, with an ellipsis or a letter twice in one operand,
without exactly one letter that is summed, with other than one letter of each operand that stays,
or with a letter that only one operand has and the result lacks.
Imperative, since the equation is a language of its own. ONNX Runtime computes an Einsum by
transposing and multiplying, not fused with anything; measured 2.0.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.graph.editor import Editor
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import LocalRule, refuse, word
from edgeopt.transforms.rewrite._around import Steps


@dataclass(frozen=True, slots=True)
class _Product:
    root: ir.Node
    left: str
    right: str
    made: str
    batch: str
    row: str
    inner: str
    column: str


def _match(root: ir.Node) -> _Product | Rejection:
    equation = word(root, "equation", "").replace(" ", "")
    sides = equation.split("->")
    operands = sides[0].split(",")
    if len(sides) != 2 or len(operands) != 2 or len(root.inputs) != 2 or "." in equation:
        return refuse("it is no explicit product of two operands", root)
    left, right, made = *operands, sides[1]
    if any(len(set(letters)) != len(letters) for letters in (left, right, made)):
        return refuse("a letter stands twice in one operand", root)
    both = [letter for letter in left if letter in right]
    batch = "".join(letter for letter in made if letter in both)
    inner = "".join(letter for letter in both if letter not in made)
    row = "".join(letter for letter in left if letter not in right)
    column = "".join(letter for letter in right if letter not in left)
    if len(inner) != 1 or len(row) != 1 or len(column) != 1:
        return refuse("it does not sum over one letter and keep one of each operand", root)
    if sorted(made) != sorted(batch + row + column):
        return refuse("a letter that the result lacks stands in one operand alone", root)
    return _Product(root, left, right, made, batch, row, inner, column)


def _rewrite(editor: Editor, found: _Product) -> None:
    root = found.root
    steps = Steps(editor, "einsum_to_matmul", root)
    one, other = root.inputs
    assert one is not None, "an Einsum has its operands"
    assert other is not None, "an Einsum has its operands"
    left = _ordered(steps, "left", one, found.left, found.batch + found.row + found.inner)
    right = _ordered(steps, "right", other, found.right, found.batch + found.inner + found.column)
    product, letters = steps.add("product", "MatMul", [left, right]), found.batch + found.row
    letters += found.column
    made = root.outputs[0].shape
    if made is not None:
        product.shape = ir.Shape([made[found.made.index(letter)] for letter in letters])
    _ordered(steps, "result", product, letters, found.made)
    steps.finish()


def _ordered(steps: Steps, role: str, value: ir.Value, have: str, want: str) -> ir.Value:
    """A value with its axes in another order."""
    if have == want:
        return value
    order = [have.index(letter) for letter in want]
    shape = None if value.shape is None else [value.shape[axis] for axis in order]
    return steps.add(role, "Transpose", [value], shape, perm=order)


PLUGIN = LocalRule(
    name="einsum_to_matmul",
    roots=frozenset({"Einsum"}),
    match=_match,
    rewrite=_rewrite,
    opset=12,
)
