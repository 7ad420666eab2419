"""The exam of the shelf `repair`: nearer to the float model, and the structure unchanged.

    examine_repair(name, model, artifacts)

The model is quantized at every site of `static_qdq` first. The repair sees calibration feeds; how
near it comes is judged on others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from edgeopt.core.data import Feed
from edgeopt.core.protocols import Artifacts
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.structure import structure_digest
from edgeopt.graph.write import to_bytes, to_proto
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.quantize_exam import at_every_site, evidence_of
from edgeopt.testing.transform_exam import Applied, ExamFailed, examine, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.stages import transform_of

CALIBRATION = 128
FRESH = 128


def examine_repair(
    name: str, model: onnx.ModelProto, artifacts: Artifacts, feeds: Sequence[Feed] | None = None
) -> tuple[Applied, ...]:
    """`examine` on the quantized model; structure, mean error a channel, and replay.

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
    types = transform_of("static_qdq")[1].sites(floats, offer())
    quantized = to_proto(at_every_site("static_qdq", floats, evidence, types))
    applied = examine(name, quantized, evidence=evidence)
    before = opened(quantized)
    for one in applied:
        if structure_digest(one.graph) != structure_digest(before):
            raise ExamFailed(f"{name} changed the structure")
        errors = [
            _mean_error(to_proto(floats).SerializeToString(), to_bytes(graph), given[half:])
            for graph in (before, one.graph)
        ]
        if errors[1] > errors[0]:
            raise ExamFailed(f"{name} moved the mean error from {errors[0]:.3g} to {errors[1]:.3g}")
        _check_replay(name, quantized, one, evidence_of(model, artifacts, given[:1]))
    return applied


def _check_replay(name: str, model: onnx.ModelProto, one: Applied, evidence: object) -> None:
    """With its artifacts the action gives the same weights, without the float model."""
    editor = Editor(opened(model))
    made = transform_of(name)[1].apply(editor, one.action, evidence)  # pyright: ignore[reportArgumentType]
    if isinstance(made, Rejection):
        raise ExamFailed(f"{one.action.text} is refused on replay: {made.reason}")
    if to_bytes(editor.model) != to_bytes(one.graph):
        raise ExamFailed(f"{name}: a replay with its artifacts gives other bytes")


def _mean_error(expected: bytes, found: bytes, feeds: Sequence[Feed]) -> float:
    """Mean over channels and outputs of |mean error of a channel|, channels on axis 1."""
    sums: dict[str, npt.NDArray[Any]] = {}
    one, other = Session(expected), Session(found)
    for feed in feeds:
        wanted, made = one.run(feed), other.run(feed)
        for name, change in _changes(wanted, made).items():
            sums[name] = sums.get(name, np.zeros(())) + change
    means = [float(np.abs(total / len(feeds)).mean()) for total in sums.values()]
    return sum(means) / max(len(means), 1)


def _changes(
    wanted: Mapping[str, npt.NDArray[Any]], made: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    found: dict[str, npt.NDArray[Any]] = {}
    for name, array in wanted.items():
        if array.dtype.kind == "f" and array.ndim > 1:
            others = tuple(axis for axis in range(array.ndim) if axis != 1)
            found[name] = (made[name].astype(np.float64) - array).mean(axis=others)
    return found
