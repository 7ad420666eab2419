"""The exam of the shelf `repair`: nearer to the float model, and the structure unchanged.

    examine_repair(name, model, artifacts)

The model is damaged first: quantized at every site of `static_qdq`, or, for a repair of pruned
graphs (`on_float`), cut at every site of `channels_l1`. The repair sees calibration feeds; how near
it comes is judged on others.
"""

from collections.abc import Sequence

import onnx
import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.core.protocols import Artifacts
from edgeopt.graph.editor import Editor
from edgeopt.graph.structure import structure_digest
from edgeopt.graph.write import to_bytes, to_proto
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.prune_exam import narrow_offer
from edgeopt.testing.quantize_exam import at_every_site, evidence_of
from edgeopt.testing.transform_exam import Applied, ExamFailed, examine, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.calibration.statistics import Statistics
from edgeopt.transforms.repair._repair import output_error
from edgeopt.transforms.stages import repairs_float, transform_of

CALIBRATION = 128
FRESH = 128
_CUT = "channels_l1"
ERROR_GROWS_AT_MOST = 1.03
"""A repair that its own samples accept as equal may look that much worse on others."""


def examine_repair(
    name: str, model: onnx.ModelProto, artifacts: Artifacts, feeds: Sequence[Feed] | None = None
) -> tuple[Applied, ...]:
    """`examine` on the damaged model; structure, error of the outputs, and replay.

    A repair may find that it makes this model worse: then the graph must be as it was, and
    nothing is returned.

    Args:
        name: Of the repair.
        model: Float.
        artifacts: Where the repair keeps what it computes.
        feeds: Calibration feeds, then as many fresh ones; noise where none are given.

    Raises:
        ExamFailed: One of these does not hold.
    """
    given = feeds if feeds is not None else random_feeds(model, CALIBRATION + FRESH, seed=3)
    half = len(given) // 2
    evidence = evidence_of(model, artifacts, given[:half])
    floats = opened(model)
    on_float = repairs_float(transform_of(name)[1])
    damaged = _pruned(floats, evidence) if on_float else _quantized(floats, evidence)
    if damaged is None or _is_refused(name, damaged, evidence):
        return ()
    applied = examine(name, damaged, evidence=evidence)
    before = opened(damaged)
    for one in applied:
        if _structure(one.graph, on_float) != _structure(before, on_float):
            raise ExamFailed(f"{name} changed the structure")
        errors = [output_error(floats, graph, given[half:]) for graph in (before, one.graph)]
        if errors[1] > ERROR_GROWS_AT_MOST * errors[0]:
            raise ExamFailed(f"{name} moved the error from {errors[0]:.3g} to {errors[1]:.3g}")
        _check_replay(name, damaged, one, evidence_of(model, artifacts, given[:1]))
    return applied


def _quantized(floats: ir.Model, evidence: Statistics) -> onnx.ModelProto:
    types = transform_of("static_qdq")[1].sites(floats, offer())
    return to_proto(at_every_site("static_qdq", floats, evidence, types))


def _pruned(floats: ir.Model, evidence: Statistics) -> onnx.ModelProto | None:
    """Every group at its widest cut; None where nothing can be removed."""
    cuts: dict[str, Action] = {}
    for action in transform_of(_CUT)[1].sites(floats, narrow_offer()):
        cuts.setdefault(action.site, action)
    if not cuts:
        return None
    return to_proto(at_every_site(_CUT, floats, evidence, cuts.values()))


def _structure(graph: ir.Model, on_float: bool) -> object:
    """A repair of pruned graphs may give layers a bias that have none."""
    if not on_float:
        return structure_digest(graph)
    return [(node.op_type, [output.name for output in node.outputs]) for node in graph.graph]


def _is_refused(name: str, model: onnx.ModelProto, evidence: Statistics) -> bool:
    """Whether the repair's own judgement goes against it everywhere; nothing may change then."""
    transform = transform_of(name)[1]
    editor = Editor(opened(model))
    before = to_bytes(editor.model)
    made = [transform.apply(editor, a, evidence) for a in transform.sites(editor.model, offer())]
    reasons = [one.reason for one in made if isinstance(one, Rejection)]
    if len(reasons) < len(made) or not made:
        return False
    if not all("off the float ones" in reason for reason in reasons):
        raise ExamFailed(f"{name} is listed, and yet refused: {reasons[0]}")
    if to_bytes(editor.model) != before:
        raise ExamFailed(f"{name} is refused, and yet changed the graph")
    return True


def _check_replay(name: str, model: onnx.ModelProto, one: Applied, evidence: object) -> None:
    """With its artifacts the action gives the same weights, without the float model."""
    editor = Editor(opened(model))
    made = transform_of(name)[1].apply(editor, one.action, evidence)  # pyright: ignore[reportArgumentType]
    if isinstance(made, Rejection):
        raise ExamFailed(f"{one.action.text} is refused on replay: {made.reason}")
    if to_bytes(editor.model) != to_bytes(one.graph):
        raise ExamFailed(f"{name}: a replay with its artifacts gives other bytes")
