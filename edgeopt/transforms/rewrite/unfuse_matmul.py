"""A product that was fused with what transposes and scales its operands, as the standard's own.

    FusedMatMul(a, b, alpha, transA, transB)  =  MatMul(aᵀ, bᵀ) · alpha

Also `TransposeMatMul`, its older name. The factor stands behind the product, as exporters write
attention; a transposed constant is transposed once and for all. ONNX Runtime writes it where it
saves a model that it has optimized, and fuses the same again when it loads the three. See
`unfuse_conv`.

It must not fire where a transposed operand has an unknown rank, or is a vector.
"""

from edgeopt.transforms.rules.conditions import number_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

unfuse = Rule("unfuse_matmul", opset=13)


@unfuse.pattern
def _(op: Ops, a: Tensor, b: Const) -> Term:
    return op.contrib("FusedMatMul")(a, b, _as="fused")


@unfuse.pattern
def _(op: Ops, a: Tensor, b: Tensor) -> Term:
    return op.contrib("FusedMatMul")(a, b, _as="fused")


@unfuse.pattern
def _(op: Ops, a: Tensor, b: Const) -> Term:
    return op.contrib("TransposeMatMul")(a, b, _as="fused")


@unfuse.pattern
def _(op: Ops, a: Tensor, b: Tensor) -> Term:
    return op.contrib("TransposeMatMul")(a, b, _as="fused")


def _order(fused: Node, letter: str, rank: int) -> tuple[int, ...]:
    """The order of axes in which an operand is multiplied."""
    axes = list(range(rank))
    if fused.attrs.get(f"transBatch{letter}", 0):
        # The first axis goes behind the batches: [rows, batch, columns] is read.
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if fused.attrs.get(f"trans{letter}", 0):
        axes[-2:] = axes[:-3:-1]
    return tuple(axes)


def _turns(fused: Node, letter: str) -> bool:
    return any(fused.attrs.get(f"{name}{letter}", 0) for name in ("trans", "transBatch"))


@unfuse.sound
def _(a: Tensor, b: Tensor, fused: Node) -> None:
    for letter, operand in (("A", a), ("B", b)):
        if _turns(fused, letter):
            require(operand.rank > 1, "a vector is not transposed")


@unfuse.replace_with
def _(op: Ops, a: Tensor, b: Tensor, fused: Node) -> Term:
    left = op.Transpose(a, perm=_order(fused, "A", a.rank)) if _turns(fused, "A") else a
    right = op.Transpose(b, perm=_order(fused, "B", b.rank)) if _turns(fused, "B") else b
    alpha = number_of(fused, "alpha", 1.0)
    made = op.MatMul(left, right)
    return made if alpha == 1 else op.Mul(made, alpha, _name="scaled")


PLUGIN = RuleTransform(unfuse)
