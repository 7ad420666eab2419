"""The exam of the shelf `prune`: removing channels equals making sure that nobody reads them.

    examine_prune(name, model)              removed channels
    examine_held(name, model, evidence)     values held at their mean

The oracle is independent of how the removal is done: on a clone the weights that read the removed
channels become zero, nothing changes its shape, and the outputs must be those of the smaller net.
Of a held value the runtime says the mean, and the clone reads that as a constant in its place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.core.profile import DeviceProfile
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import Session, observe
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.transform_exam import Applied, ExamFailed, examine, opened
from edgeopt.transforms.base import Evidence, Offer
from edgeopt.transforms.dependencies import ChannelGroup, channel_groups

TOLERANCE = 1e-5
"""Of the largest output: the same sums in another order."""


def narrow_offer(block: int = 4) -> Offer:
    """A device whose channel block is small enough for tiny nets."""
    profile = DeviceProfile(name="exam", title="exam", architecture="x86_64", channel_block=block)
    return Offer(profile=profile)


def examine_prune(
    name: str,
    model: onnx.ModelProto,
    feeds: Sequence[Feed] | None = None,
    *,
    evidence: Evidence | None = None,
    offered: Offer | None = None,
) -> tuple[Applied, ...]:
    """`examine`, and at every site: fewer weights, and outputs as with the channels unread.

    Raises:
        ExamFailed: One of these does not hold; says at which site.
    """
    given = feeds if feeds is not None else random_feeds(model, 2)
    applied = examine(name, model, evidence=evidence, offered=offered or narrow_offer())
    before = _parameters(opened(model))
    for one in applied:
        where = f"{name} at {one.action.site!r}"
        if not _parameters(one.graph) < before:
            raise ExamFailed(f"{where} removed no weights")
        zeroed = _unread(model, one.graph, one.action)
        _require_equal(zeroed, one.graph, given, where)
    return applied


def examine_held(
    name: str, model: onnx.ModelProto, samples: Sequence[Feed], evidence: Evidence
) -> tuple[Applied, ...]:
    """`examine`, and at every site: fewer nodes, and outputs as with its value at the mean.

    Args:
        name: Of a transform whose sites are values [N, C, 1, ...] that it holds.
        model: Float.
        samples: What the evidence knows.
        evidence: Over these samples.

    Raises:
        ExamFailed: One of these does not hold; says at which site.
    """
    fresh = random_feeds(model, 2, seed=7)
    applied = examine(name, model, evidence=evidence)
    for one in applied:
        where = f"{name} at {one.action.site!r}"
        graph = opened(model)
        if not len(list(one.graph.graph)) < len(list(graph.graph)):
            raise ExamFailed(f"{where} removed no nodes")
        _require_equal(_held(graph, one.action.site, samples), one.graph, fresh, where)
    return applied


def _held(graph: ir.Model, site: str, samples: Sequence[Feed]) -> ir.Model:
    """The graph, whoever read a value reading its mean a channel over the samples."""
    found = [values[site] for values in observe(graph, [site], samples)]
    total = np.concatenate(found).astype(np.float64)
    axes = tuple(axis for axis in range(total.ndim) if axis != 1)
    editor = Editor(graph)
    value = next(v for node in graph.graph for v in node.outputs if v.name == site)
    mean = total.mean(axis=axes, keepdims=True).astype(found[0].dtype)
    editor.replace_uses(value, editor.initializer(f"{site}/mean", mean))
    return graph


def _unread(model: onnx.ModelProto, pruned: ir.Model, action: Action) -> ir.Model:
    """The model with zeros in every weight column that reads a removed channel."""
    graph = opened(model)
    group = next(g for g in channel_groups(graph, joins=True) if g.name == action.site)
    removed = _removed(group, pruned)
    editor = Editor(graph)
    for cut in group.consumers:
        weight = np.array(array_of(cut.node.inputs[cut.index]))
        index: list[Any] = [slice(None)] * weight.ndim
        index[cut.axis] = cut.offset + np.asarray(removed)
        weight[tuple(index)] = 0
        made = editor.initializer(f"{cut.node.outputs[0].name}/unread{cut.offset}", weight)
        editor.set_input(cut.node, cut.index, made)
    return graph


def _removed(group: ChannelGroup, pruned: ir.Model) -> npt.NDArray[np.int64]:
    """Which channels are gone, read off the rows of the first producer's weight."""
    axis = next(c.axis for c in group.others if c.node is group.producers[0] and c.index == 1)
    whole = _rows(group.producers[0], axis)
    kept = _rows(_maker(pruned, group.name), axis)
    width = min(whole.shape[1], kept.shape[1])
    left = [int(np.abs(whole[:, :width] - row[:width]).sum(axis=1).argmin()) for row in kept]
    return np.setdiff1d(np.arange(len(whole)), left)


def _rows(node: ir.Node, axis: int) -> npt.NDArray[Any]:
    weight = array_of(node.inputs[1])
    if weight is None:
        raise ExamFailed(f"{node.name!r} has no constant weight any more")
    return np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)


def _maker(graph: ir.Model, name: str) -> ir.Node:
    for node in graph.graph:
        if any(output.name == name for output in node.outputs):
            return node
    raise ExamFailed(f"no node makes {name!r} any more")


def _parameters(graph: ir.Model) -> int:
    """Elements of all constant operands, a shared one once for every user."""
    operands = (array_of(value) for node in graph.graph for value in node.inputs)
    return sum(array.size for array in operands if array is not None)


def _require_equal(expected: ir.Model, found: ir.Model, feeds: Sequence[Feed], where: str) -> None:
    one, other = Session(to_bytes(expected)), Session(to_bytes(found))
    for feed in feeds:
        wanted, made = one.run(feed), other.run(feed)
        for name, array in wanted.items():
            wide = array.astype(np.float64)
            error = float(np.abs(wide - made[name]).max(initial=0.0))
            if error > TOLERANCE * max(float(np.abs(wide).max(initial=0.0)), 1.0):
                raise ExamFailed(f"{where}: output {name!r} is off by {error:.3g}")
