"""Mutants of the models in the goldens: the proof by random draws of every exact transform.

    draw_mutant(models, seed)    a model near one that a rule fires in, or must not fire in
    prove_mutant(model, names)   every site of these transforms, compared with the runtime

A golden is the least model of a pattern. A mutant has other weights, sizes, strides, pads, axes,
groups or numbers, or shows a value in the middle to somebody else; most are near misses, and what
the runtime does not take is no draw. So rules that no pattern describes are drawn as well.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from edgeopt import plugins
from edgeopt.graph.editor import Editor
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.graph.write import to_bytes
from edgeopt.testing.graphs import random_feeds
from edgeopt.testing.rule_exam import Outputs, compare, outputs_of
from edgeopt.testing.transform_exam import ExamFailed, NoEvidence, offer, opened
from edgeopt.transforms.base import Rejection
from edgeopt.transforms.stages import transform_of

_REDRAWN, _NUMBER, _ATTRIBUTE, _SIZE, _SHOWN = 0.5, 0.08, 0.15, 0.3, 0.25
_MOST_ELEMENTS = 200_000
_FLAGS = frozenset({"keepdims", "transA", "transB", "count_include_pad", "ceil_mode"})


def drawable() -> tuple[str, ...]:
    """Exact transforms with sites of their own that need no word of the user."""
    names = [name for shelf in ("rewrite", "fuse") for name in plugins.SHELVES[shelf].names()]
    asking = {"freeze_shapes", "freeze_value", "drop_output"}
    return tuple(n for n in names if not transform_of(n)[1].whole_model and n not in asking)


def golden_models(folder: Path, name: str) -> list[onnx.ModelProto]:
    """What a rule's goldens begin with, near misses included.

    Args:
        folder: Of all goldens, with a folder a shelf.
        name: Of the rule.
    """
    shelf, _ = transform_of(name)
    paths = sorted((folder / shelf / name).glob("*.txt"))
    kept = [path for path in paths if not path.name.startswith("after")]
    return [parser.parse_model(path.read_text(encoding="utf-8")) for path in kept]


def draw_mutant(models: Sequence[onnx.ModelProto], seed: int) -> onnx.ModelProto:
    """A mutant of one of some models; the same seed means the same one."""
    draw = random.Random(seed)
    model = onnx.ModelProto()
    model.CopyFrom(draw.choice(models))
    graph = model.graph
    numbers = np.random.default_rng(draw.randrange(2**32))
    for tensor in graph.initializer:
        _redraw(tensor, draw, numbers)
    for node in graph.node:
        for attribute in node.attribute:
            if draw.random() < _ATTRIBUTE:
                _nudge(attribute, draw)
    moved = draw.choice((-1, 1, 2, 3)) if draw.random() < _SIZE else 0
    for info in graph.input:
        for dim in list(info.type.tensor_type.shape.dim)[2:]:
            if dim.dim_value > 1:
                dim.dim_value = max(1, dim.dim_value + moved)
    _show(model, draw)
    return model


def prove_mutant(model: onnx.ModelProto, names: Iterable[str]) -> Counter[str] | None:
    """How many sites of each transform were compared; None where there is nothing to compare.

    Raises:
        ExamFailed: An output differs, the runtime does not take the rewritten model, a listed
            site is refused, or undoing leaves other bytes.
    """
    try:
        graph = opened(model)
        feeds = random_feeds(model, 2)
        expected = outputs_of(model.SerializeToString(), feeds)
    except (RuntimeFailure, onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return None
    if not _comparable(expected):
        return None
    start, counts = to_bytes(graph), Counter[str]()
    for name in names:
        _, transform = transform_of(name)
        for action in transform.sites(graph, offer()):
            where = f"{action.text} in {onnx.printer.to_text(model.graph)}"
            editor = Editor(graph.clone())
            if isinstance(made := transform.apply(editor, action, NoEvidence()), Rejection):
                raise ExamFailed(f"listed, and yet refused ({made.reason}): {where}")
            try:
                found = outputs_of(to_bytes(editor.model), feeds)
            except RuntimeFailure as failure:
                raise ExamFailed(f"the runtime does not take it ({failure}): {where}") from failure
            compare(expected, found, where)
            editor.undo()
            if to_bytes(editor.model) != start:
                raise ExamFailed(f"undoing leaves another model: {where}")
            counts[name] += 1
    return counts


def _comparable(expected: Outputs) -> bool:
    """Whether all numbers are finite (what rules do to others is another exam) and few enough."""
    arrays: list[Any] = [array for one in expected for array in one.values()]
    if not all(isinstance(array, np.ndarray) for array in arrays):  # sequences
        return False
    floats = [array for array in arrays if array.dtype.kind == "f"]
    small = sum(array.size for array in arrays) <= _MOST_ELEMENTS
    return small and all(np.isfinite(array).all() for array in floats)


def _redraw(tensor: onnx.TensorProto, draw: random.Random, numbers: np.random.Generator) -> None:
    """Weights anew, zeros among them; integers and lone numbers seldom, one step off."""
    array = np.array(numpy_helper.to_array(tensor))
    if array.dtype.kind == "f" and array.size > 1:
        if draw.random() < _REDRAWN:
            drawn = numbers.normal(0, 1, array.shape)
            drawn[numbers.random(array.shape) < draw.choice((0.0, 0.0, 0.3))] = 0.0
            array = drawn.astype(array.dtype)
    elif array.size and array.dtype.kind in "fi" and draw.random() < _NUMBER:
        array.reshape(-1)[draw.randrange(array.size)] += draw.choice((-1, 1, 2))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _nudge(attribute: onnx.AttributeProto, draw: random.Random) -> None:
    """One number of an attribute, one step off."""
    step = draw.choice((-1, 1, 1, 2))
    if attribute.name in _FLAGS:
        attribute.i = 1 - attribute.i
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i += step
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f += step
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        at = draw.randrange(len(attribute.ints))
        attribute.ints[at] += step
        if draw.random() < 0.5:
            attribute.ints[:] = [attribute.ints[at]] * len(attribute.ints)


def _show(model: onnx.ModelProto, draw: random.Random) -> None:
    """Outputs of whatever shape; a value in the middle is one more now and then."""
    graph = model.graph
    shown = {info.name for info in graph.output}
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")
    if draw.random() >= _SHOWN:
        return
    inside = [n for node in graph.node for n in node.output if n and n not in shown]
    if inside:
        name = draw.choice(inside)
        known = {
            info.name: info for info in onnx.shape_inference.infer_shapes(model).graph.value_info
        }
        if name in known and known[name].type.HasField("tensor_type"):
            kind = known[name].type.tensor_type.elem_type
            graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
