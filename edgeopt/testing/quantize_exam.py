"""The exam of the shelf `quantize`: the declared precision really runs, and the error is bounded.

    examine_quantize(name, model, artifacts)    every action alone, then all of them, both ways

On top of what every transform must prove: the runtime computes every asked layer in integers; the
outputs stay near the float ones; the order of the actions does not matter.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed, Part
from edgeopt.core.protocols import Artifacts
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session, profile_nodes
from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.graph.write import to_bytes, write_model
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.transform_exam import Applied, ExamFailed, examine, offer, opened
from edgeopt.transforms.base import Offer, Rejection
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.groups import is_quantized, is_weighted
from edgeopt.transforms.stages import transform_of

LEAST_SQNR_DB = 20.0
CALIBRATION = 16
INTEGER = frozenset(
    {
        *("QLinearConv", "QGemm", "QLinearMatMul", "MatMulIntegerToFloat", "QAttention"),
        *("ConvInteger", "MatMulInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"),
    }
)


def evidence_of(
    model: onnx.ModelProto, artifacts: Artifacts, feeds: Sequence[Feed] | None = None
) -> Statistics:
    """Evidence from noise of the right shapes, or from given feeds."""
    given = feeds if feeds is not None else random_feeds(model, CALIBRATION, seed=1)
    return Statistics(Part(name="calibration", feeds=given), artifacts)


def examine_quantize(
    name: str,
    model: onnx.ModelProto,
    artifacts: Artifacts,
    *,
    offered: Offer | None = None,
    least_db: float = LEAST_SQNR_DB,
    integer: bool = True,
) -> tuple[Applied, ...]:
    """Every action alone: `examine`, integer layers, bounded error. Then all in both orders.

    Where only what is stored becomes integer (`integer=False`), the file must become smaller.

    Raises:
        ExamFailed: One of these does not hold; says at which site.
    """
    evidence = evidence_of(model, artifacts)
    applied = examine(name, model, evidence=evidence, offered=offered)
    fresh = random_feeds(model, 4, seed=2)
    expected = model.SerializeToString()
    for one in applied:
        where = f"{name} at {one.action.site!r}"
        whole = transform_of(name)[1].whole_model
        if integer:
            _check_precision(one.graph, fresh[0], where, all_of_them=not whole)
        elif len(to_bytes(one.graph)) >= len(expected):
            raise ExamFailed(f"{where} saves nothing")
        found = sqnr_db(expected, to_bytes(one.graph), fresh)
        if found < least_db:
            raise ExamFailed(f"{where} leaves {found:.1f} dB, less than {least_db:g}")
    if applied and not transform_of(name)[1].whole_model:
        _check_order(name, model, artifacts, offered or offer())
    return applied


def at_every_site(
    name: str, graph: ir.Model, evidence: Statistics, actions: Iterable[Action]
) -> ir.Model:
    """A clone of the graph with all the actions done, in the given order.

    Raises:
        ExamFailed: One of them is refused.
    """
    evidence.remember_float(graph)
    editor = Editor(graph.clone())
    for action in actions:
        made = transform_of(name)[1].apply(editor, action, evidence)
        if isinstance(made, Rejection):
            raise ExamFailed(f"{action.text} is refused after others: {made.reason}")
    return editor.model


def lowered_counts(graph: ir.Model, feed: Feed) -> Mapping[str, int]:
    """How often the runtime executed each operator, after all its optimizations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_model(graph, path)
        nodes: list[dict[str, Any]] = profile_nodes(path, RuntimeSettings(), feed, runs=1)["nodes"]
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node["op"]] = counts.get(node["op"], 0) + 1
    return counts


def sqnr_db(expected: bytes, found: bytes, feeds: Sequence[Feed]) -> float:
    """Signal to quantization noise of the worst float output, over feeds; 0 for flipped classes.

    Integer outputs count as wrong where more than a tenth of their elements differ.
    """
    sessions = Session(expected), Session(found)
    signal: dict[str, float] = {}
    noise: dict[str, float] = {}
    for feed in feeds:
        one, other = (session.run(feed) for session in sessions)
        for name, array in one.items():
            if array.dtype.kind != "f":
                if np.count_nonzero(array != other[name]) > 0.1 * array.size:
                    return 0.0
                continue
            wide = array.astype(np.float64)
            signal[name] = signal.get(name, 0.0) + float((wide**2).sum())
            noise[name] = noise.get(name, 0.0) + float(((wide - other[name]) ** 2).sum())
    levels = [10 * np.log10(signal[n] / max(noise[n], 1e-30)) for n in signal if signal[n] > 0]
    return min(levels, default=np.inf)


def _check_precision(graph: ir.Model, feed: Feed, where: str, *, all_of_them: bool) -> None:
    """A foreign tool may leave layers in float; our own transforms do what they say."""
    asked = sum(is_weighted(node) and is_quantized(node) for node in graph.graph)
    asked += sum(node.op_type in INTEGER for node in graph.graph.all_nodes())
    counts = lowered_counts(graph, feed)
    ran = sum(count for operator, count in counts.items() if operator in INTEGER)
    if ran == 0 or (all_of_them and ran < asked):
        raise ExamFailed(f"{where} asked for {asked} integer layers, {ran} ran: {dict(counts)}")


def _check_order(name: str, model: onnx.ModelProto, artifacts: Artifacts, offered: Offer) -> None:
    graph = opened(model)
    # One alternative a site: the first.
    listed = transform_of(name)[1].sites(graph, offered)
    actions = tuple({action.site: action for action in reversed(listed)}.values())[::-1]
    made = [
        at_every_site(name, graph, evidence_of(model, artifacts), order)
        for order in (actions, actions[::-1])
    ]
    if len({structure_digest(one) for one in made}) > 1 or len(set(map(weights_digest, made))) > 1:
        raise ExamFailed(f"{name}: another order of the same actions gives another graph")
    left = transform_of(name)[1].sites(made[0], offered)
    if left:
        raise ExamFailed(f"{name} still lists {[a.site for a in left]} after all were done")
