"""A residual branch held at its mean over the calibration samples: a whole block goes.

    x + f(x)  ≈  x + m        m[c]: mean of channel c of f(x) over the samples

What computed f goes. A block whose branch adds little can be spared, and least squares behind it
make up for a part of what it did. It may lose accuracy, so every branch is a decision of its own.

The mean is taken with all branches at work, so that one pass serves every set of them; it is an
artifact, and a replay uses the stored one. It must not fire where the other operand is no part of
what the branch is computed from, where something else reads the branch, or where operands are
broadcast.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor, array_of, sole_user
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.local_rule import producer_of, refuse, set_constant

_MEAN = "mean"
_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_NODES = 200
"""Of one branch; what is longer is no block."""
_KEY = "edgeopt.prune.hold_branch"
_MAPS = 4


@dataclass(frozen=True, slots=True)
class _Branch:
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


class HoldBranch:
    """Approximate: a branch becomes a constant of each channel."""

    version = 1
    needs_data = True
    whole_model = False

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a branch, by the value that it adds."""
        del offer
        return tuple(Action.of("hold_branch", value.name) for value in _all(model) if value.name)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Add the mean instead of the branch."""
        node = producer_of(editor.model, action.site)
        if node is None:
            return Rejection(reason=f"no node of the main graph computes {action.site!r}")
        value = next(output for output in node.outputs if output.name == action.site)
        found = _match(value)
        if isinstance(found, Rejection):
            return found
        known = _known(editor.model, found, action, evidence)
        if known is None:
            return refuse("no calibration sample says what this branch adds", node)
        mean, digest = known
        dtype = np.dtype(np.float32 if value.dtype is None else value.dtype.numpy())
        shape = (1, found.width, *(1,) * (found.rank - 2)) if found.axis == 1 else (found.width,)
        held = mean.astype(dtype).reshape(shape)
        set_constant(editor, found.add, found.index, f"{action.site}/hold_branch", held)
        editor.remove_dead([node])
        return action.with_artifacts(**{_MEAN: digest})


def _all(model: ir.Model) -> list[ir.Value]:
    adds = [node for node in model.graph if node.op_type == "Add" and not node.domain]
    values = [value for node in adds for value in node.inputs if value is not None]
    return [value for value in values if not isinstance(_match(value), Rejection)]


def _match(value: ir.Value) -> _Branch | Rejection:
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
    return _Branch(add, index, width, len(shape))


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


def _known(
    model: ir.Model, found: _Branch, action: Action, evidence: Evidence
) -> tuple[npt.NDArray[Any], str] | None:
    """The mean [channels] of a branch and its artifact; None without samples."""
    digest = action.artifact(_MEAN)
    held = None if digest is None else evidence.recall(digest)
    if digest is not None and held is not None and held[_MEAN].shape == (found.width,):
        return held[_MEAN], digest
    means = _held_means(model.graph)
    if means is None or len(means.get(action.site, ())) != found.width:
        names = [value.name for value in _all(model) if value.name]
        means = dict[str, npt.NDArray[np.float64]]()
        for axis in (1, -1):
            seen = evidence.channels(model, names, axis=axis)
            rank = {value.name: len(value.shape or ()) for value in _all(model)}
            chosen = {name for name in seen if (rank[name] >= _MAPS) == (axis == 1)}
            means |= {n: seen[n].total / max(seen[n].count, 1) for n in chosen}
        model.graph.meta[_KEY] = means
    mean = means.get(action.site)
    if mean is None or len(mean) != found.width or not np.isfinite(mean).all():
        return None
    return mean, evidence.keep({_MEAN: mean})


def _held_means(graph: ir.Graph) -> dict[str, npt.NDArray[np.float64]] | None:
    """Of the graph before its first branch was held; they go with its clones."""
    return graph.meta.get(_KEY)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


PLUGIN = HoldBranch()
