"""Blocks of channels laid out as pixels, or back, spelled with six axes, as the one operator.

    Reshape(Transpose(Reshape(x, [n, b, b, c, h, w]), 0 3 4 1 5 2))  =  DepthToSpace(x, b)
    Reshape(Transpose(Reshape(x, [n, c, b, b, h, w]), 0 1 4 2 5 3))  =  DepthToSpace(x, b, CRD)
    Reshape(Transpose(Reshape(x, [n, c, h, b, w, b]), 0 3 5 1 2 4))  =  SpaceToDepth(x, b)

It must not fire with blocks that are not square, another order, computed shapes, or where
something else reads a step.
ONNX Runtime does nothing of it; measured 1.4.
"""

from edgeopt.transforms.rules.conditions import integers_of
from edgeopt.transforms.rules.form import Rule
from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Const, Node, Ops, Tensor, Term
from edgeopt.transforms.rules.transform import RuleTransform

blocks = Rule(
    "depth_to_space",
    opset=11,
    shared="something else reads a step of it",
    no_constant=dict.fromkeys(("six", "four"), "a shape is computed"),
)
_DCR, _CRD, _BACK = (0, 3, 4, 1, 5, 2), (0, 1, 4, 2, 5, 3), (0, 3, 5, 1, 2, 4)


@blocks.pattern
def _(op: Ops, x: Tensor, six: Const, four: Const) -> Term:
    split = op.Reshape(x, six, _value="split", _missing="no Reshape before it")
    turned = op.Transpose(split, _as="turn", _missing="it does not end a permutation of blocks")
    return op.Reshape(turned, four, _value="made")


def _block(turn: Node, split: Tensor) -> int:
    """Length of a block's side; 0 where it is no block."""
    order = integers_of(turn, "perm", None)
    pairs: dict[tuple[int, ...], tuple[int, int]] = {_DCR: (1, 2), _CRD: (2, 3), _BACK: (3, 5)}
    if order not in pairs or split.rank != len(order):
        return 0
    one, other = (split.shape[axis] for axis in pairs[order])
    return one if isinstance(one, int) and one == other and one > 1 else 0


@blocks.sound
def _(x: Tensor, turn: Node, split: Tensor, made: Tensor) -> None:
    block, order = _block(turn, split), integers_of(turn, "perm", None)
    require(block > 0, "it does not move square blocks")
    require(x.rank == 4 and made.rank == 4, "it does not move planes")
    channels, height, width = (x.size(axis) for axis in (1, 2, 3))
    inner = channels // block**2
    want: dict[tuple[int, ...], tuple[int, ...]] = {
        _DCR: (block, block, inner, height, width),
        _CRD: (inner, block, block, height, width),
        _BACK: (channels, height // block, block, width // block, block),
    }
    back = order == _BACK
    after = (
        (channels * block**2, height // block, width // block)
        if back
        else (inner, height * block, width * block)
    )
    same = split.shape[1:] == want[order] and made.shape[1:] == after
    require(same and split.shape[0] == x.shape[0], "its axes are not those of blocks")


@blocks.replace_with
def _(op: Ops, x: Tensor, turn: Node, split: Tensor) -> Term:
    block, order = _block(turn, split), integers_of(turn, "perm", None)
    if order == _BACK:
        return op.SpaceToDepth(x, blocksize=block)
    return op.DepthToSpace(x, blocksize=block, mode="DCR" if order == _DCR else "CRD")


PLUGIN = RuleTransform(blocks)
