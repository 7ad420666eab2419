"""What exact rules do with NaN and infinity.

    examine_nonfinite(name, model)    at every site: what was NaN, infinite or finite is it still

A rule that adds or multiplies in another order may make NaN of what was infinite (inf - inf) or the
other way round; it must say so, and keep what is finite finite (`loosely`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.transform_exam import ExamFailed, NoEvidence, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.stages import transform_of

_STRANGE = (np.nan, np.inf, -np.inf)
Arrays = Mapping[str, npt.NDArray[Any]]


def examine_nonfinite(name: str, model: onnx.ModelProto, *, loosely: bool = False) -> int:
    """Apply a transform at each of its sites and compare outputs of strange inputs.

    Args:
        name: Of the transform.
        model: Some of its inputs are floats.
        loosely: Whether NaN and infinities count as one kind.

    Returns:
        How many outputs with something strange in them were compared.

    Raises:
        ExamFailed: An element is of another kind than it was.
    """
    _, transform = transform_of(name)
    graph = opened(model)
    feeds = list(_strange(random_feeds(model, 1)[0]))
    plain = RuntimeSettings(optimization="off")
    session = Session(model.SerializeToString(), plain)
    expected = [session.run(feed) for feed in feeds]
    compared = 0
    for action in transform.sites(graph, offer()):
        editor = Editor(graph.clone())
        if isinstance(transform.apply(editor, action, NoEvidence()), Rejection):
            raise ExamFailed(f"{action.text} is listed, and yet refused")
        made = Session(to_bytes(editor.model), plain)
        for feed, outputs in zip(feeds, expected, strict=True):
            compared += _compare(outputs, made.run(feed), loosely, action.text)
    return compared


def _strange(feed: Feed) -> Iterator[Feed]:
    """The feed with one strange number in one input, for each of both."""
    for name, array in feed.items():
        if array.dtype.kind == "f" and array.size:
            for index, number in enumerate(_STRANGE):
                changed = array.copy()
                changed.reshape(-1)[index % array.size] = number
                yield {**feed, name: changed}


def _compare(old: Arrays, new: Arrays, loosely: bool, where: str) -> int:
    compared = 0
    for name, array in old.items():
        if array.dtype.kind != "f":
            continue
        kinds = [_kinds(each, loosely) for each in (array, new[name])]
        compared += bool(kinds[0].any())
        if not np.array_equal(kinds[0], kinds[1]):
            sample: Sequence[Any] = [each.reshape(-1)[:8].tolist() for each in (array, new[name])]
            raise ExamFailed(f"{where}: {name!r} was {sample[0]} and is {sample[1]}")
    return compared


def _kinds(array: npt.NDArray[Any], loosely: bool) -> npt.NDArray[np.int8]:
    """0 finite, 1 NaN, 2 and 3 infinite; loosely 0 and 1 only."""
    if loosely:
        return (~np.isfinite(array)).astype(np.int8)
    kinds = np.isnan(array) * 1 + np.isposinf(array) * 2 + np.isneginf(array) * 3
    return np.asarray(kinds, np.int8)
