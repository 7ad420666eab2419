"""The exam of the shelf `prune`: removing channels equals making sure that nobody reads them.

    examine_prune(name, model)              removed channels
    examine_held(name, model, evidence)     values held at their mean

The oracle is that of `prune_groups`: on a clone the weights that read the removed channels become
zero, nothing changes its shape, and the outputs must be those of the smaller net.
Of a held value the runtime says the mean, and the clone reads that as a constant in its place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from edgeopt.core.data import Feed
from edgeopt.core.profile import DeviceProfile
from edgeopt.graph.editor import Editor, array_of
from edgeopt.graph.runtime import observe
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.prune_groups import TOLERANCE, difference, unread
from edgeopt.testing.transform_exam import Applied, ExamFailed, examine, opened
from edgeopt.transforms.base import Evidence, Offer
from edgeopt.transforms.channels.edits import Cut
from edgeopt.transforms.channels.groups import Dependencies


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
    graph = opened(model)
    before = _parameters(graph)
    for one in applied:
        where = f"{name} at {one.action.site!r}"
        if not _parameters(one.graph) < before:
            raise ExamFailed(f"{where} removed no weights")
        zeroed = unread(graph, one.action.site, _kept(graph, one.graph, one.action.site))
        off = difference(zeroed, one.graph, given)
        if not off <= TOLERANCE:
            raise ExamFailed(f"{where}: outputs are off by {off:.3g}")
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
        off = difference(_held(graph, one.action.site, samples), one.graph, fresh)
        if not off <= TOLERANCE:
            raise ExamFailed(f"{where}: outputs are off by {off:.3g}")
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


def _kept(model: ir.Model, pruned: ir.Model, name: str) -> npt.NDArray[np.int64]:
    """Which units are left, read off the rows of the first layer's weight."""
    found = Dependencies(model)
    group = found.group(name)
    assert group is not None, "the transform has listed it"
    made = group.sources[0].value
    cut = next(c for c in found.cuts if not c.reads and c.index < 2 and made in c.node.outputs)
    node = _maker(pruned, made.name or "")
    whole, left = _rows(cut.node, cut), _rows(node, cut)
    width = min(whole.shape[1], left.shape[1])
    rows = [int(np.abs(whole[:, :width] - row[:width]).sum(axis=1).argmin()) for row in left]
    return np.unique(group.units_at(cut.labels)[rows])


def _rows(node: ir.Node, cut: Cut) -> npt.NDArray[Any]:
    weight = array_of(node.inputs[cut.index])
    if weight is None:
        raise ExamFailed(f"{node.name!r} has no constant weight any more")
    return np.moveaxis(weight, cut.axis, 0).reshape(weight.shape[cut.axis], -1)


def _maker(graph: ir.Model, name: str) -> ir.Node:
    for node in graph.graph:
        if any(output.name == name for output in node.outputs):
            return node
    raise ExamFailed(f"no node makes {name!r} any more")


def _parameters(graph: ir.Model) -> int:
    """Elements of all constant operands, a shared one once for every user."""
    operands = (array_of(value) for node in graph.graph for value in node.inputs)
    return sum(array.size for array in operands if array is not None)
