"""A residual branch held at its mean over the calibration samples: a whole block goes.

    x + f(x)  ≈  x + m        m[c]: mean of channel c of f(x) over the samples

What computed f goes. A block whose branch adds little can be spared, and least squares behind it
make up for a part of what it did. It may lose accuracy, so every branch is a decision of its own.

It must not fire where the other operand is no part of
what the branch is computed from, where something else reads the branch, or where operands are
broadcast.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.local_rule import refuse, set_constant
from edgeopt.transforms.prune._held_at_mean import HeldAtMean

_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_NODES = 200
"""Of one branch; what is longer is no block."""
_MAPS = 4


@dataclass(frozen=True, slots=True)
class Branch:
    """An Add of a stream and a branch that reads it.

    Args:
        add: The Add.
        index: Which of its inputs the branch is.
        width: Channels.
        rank: Of both operands.
    """

    add: ir.Node
    index: int
    width: int
    rank: int

    @property
    def axis(self) -> int:
        """Of the channels: the second of maps, the last of sequences."""
        return 1 if self.rank >= _MAPS else -1


def _hold(editor: Editor, found: Branch, mean: npt.NDArray[Any]) -> None:
    """Add the mean instead of the branch."""
    value = found.add.inputs[found.index]
    assert value is not None, "the branch was matched"
    node = value.producer()
    assert node is not None, "the branch was matched"
    dtype = np.dtype(np.float32 if value.dtype is None else value.dtype.numpy())
    shape = (1, found.width, *(1,) * (found.rank - 2)) if found.axis == 1 else (found.width,)
    held = mean.astype(dtype).reshape(shape)
    set_constant(editor, found.add, found.index, f"{value.name}/hold_branch", held)
    editor.remove_dead([node])


def branches(model: ir.Model) -> list[ir.Value]:
    """Everything that could be held, in graph order."""
    adds = [node for node in model.graph if node.op_type == "Add" and not node.domain]
    values = [value for node in adds for value in node.inputs if value is not None]
    return [value for value in values if not isinstance(branch_of(value), Rejection)]


def branch_of(value: ir.Value) -> Branch | Rejection:
    """The branch that a value is the end of; why it must stay where it is none."""
    add = sole_user(value)
    if add is None or add.op_type != "Add" or add.domain:
        return Rejection(reason="something else than one sum reads it")
    index = next(at for at, held in enumerate(add.inputs) if held is value)
    stream = add.inputs[1 - index]
    if stream is None or stream is value or array_of(stream) is not None:
        return refuse("nothing else is added to it", add)
    shape = value.shape
    if shape is None or stream.shape is None or len(shape) < 3 or shape != stream.shape:
        return refuse("its operands are not of the same shape", add)
    width = shape[1 if len(shape) >= _MAPS else -1]
    if not isinstance(width, int):
        return refuse("its number of channels is not known", add)
    if not _reads(value, stream):
        return refuse("what it is added to is no part of what it is computed from", add)
    return Branch(add, index, width, len(shape))


def _reads(value: ir.Value, stream: ir.Value) -> bool:
    """Whether a weighted computation leads from a stream to a value."""
    waiting, seen = [value], {value}
    met = weighted = False
    while waiting:
        node = waiting.pop().producer()
        if node is None:
            continue
        weighted |= node.op_type in _WEIGHTED
        for one in node.inputs:
            if one is stream:
                met = True
            elif one is not None and one not in seen and array_of(one) is None:
                seen.add(one)
                waiting.append(one)
        if len(seen) > _NODES:
            return False
    return met and weighted


PLUGIN = HeldAtMean(
    name="hold_branch",
    values=branches,
    match=branch_of,
    hold=_hold,
    unknown="no calibration sample says what this branch adds",
)
