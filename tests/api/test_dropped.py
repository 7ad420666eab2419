"""`--drop-output`: outputs that built models need not have."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.api import dropped
from edgeopt.api.accuracy import Accuracy
from edgeopt.api.prepare import prepared
from edgeopt.api.replay import replay
from edgeopt.api.request import RunRequest
from edgeopt.api.subject import Subject, open_subject
from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.errors import UsageError
from edgeopt.graph.equivalence import Reference
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.graphs import Builder
from tests.conftest import Finished


def _with_aux(folder: Path) -> Path:
    """A classifier with an auxiliary head behind its first layer, and an output of features."""
    b = Builder()
    b.node("Relu", [b.node("MatMul", ["x", b.weight("w1", 6, 8)], "p")], "features")
    b.node("MatMul", ["features", b.weight("w2", 8, 4)], "logits")
    b.node("Softmax", [b.node("MatMul", ["features", b.weight("w3", 8, 5)], "q")], "aux", axis=-1)
    outputs = [("logits", 4), ("aux", 5), ("features", 8)]
    model = b.model(
        [("x", "float32", ("N", 6))], [(name, "float32", ("N", size)) for name, size in outputs]
    )
    return graphs.write(model, folder)


def _subject(folder: Path, metric: str | None = None) -> Subject:
    path = _with_aux(folder)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(64, 6)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, label=generator.integers(0, 4, 64))
    return open_subject(
        path, data=str(folder / "data.npz"), metric=metric, seed=0, progress=lambda _: None
    )


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("head",), "no output 'head' to drop"),
        (("logits", "aux", "features"), "no output would be left"),
        (("aux",), ""),
    ],
)
def test_what_the_model_does_not_have_is_refused(
    tmp_path: Path, names: tuple[str, ...], reason: str
) -> None:
    """Names that are no outputs, and all of them at once."""
    subject = _subject(tmp_path)
    if not reason:
        dropped.refuse_unfit(names, subject)
        return
    with pytest.raises(UsageError, match=reason):
        dropped.refuse_unfit(names, subject)


def test_state_stays(tmp_path: Path) -> None:
    """An output that is fed into the next sample cannot go."""
    b = Builder()
    b.node("Add", ["x", "h"], "y")
    b.node("Tanh", ["y"], "hn")
    shape = ("N", 6)
    model = b.model(
        [(n, "float32", shape) for n in "xh"], [(n, "float32", shape) for n in ("y", "hn")]
    )
    x = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    meta = np.asarray(json.dumps({"state": {"hn": "h"}}))
    np.savez(tmp_path / "data.npz", x=x, h=np.zeros_like(x), group=np.arange(40) // 8, edgeopt=meta)
    subject = open_subject(
        graphs.write(model, tmp_path),
        data=str(tmp_path / "data.npz"),
        metric=None,
        seed=0,
        progress=lambda _: None,
    )
    assert subject.data is not None
    with pytest.raises(UsageError, match="'hn' is state"):
        dropped.refuse_unfit(("hn",), subject)


@pytest.mark.parametrize("metric", ["top1", "agreement"])
def test_what_accuracy_reads_stays(tmp_path: Path, metric: str) -> None:
    """The first output, which the metrics take, cannot go; the others can."""
    accuracy = Accuracy(_subject(tmp_path, metric), RuntimeSettings())
    dropped.refuse_read(("aux", "features"), accuracy)
    with pytest.raises(UsageError, match="read from the output 'logits'"):
        dropped.refuse_read(("aux", "logits"), accuracy)


def test_a_study_and_its_replay(tmp_path: Path) -> None:
    """The search may leave the heads out; the recipe says it, and a replay gives the same file."""
    path = _with_aux(tmp_path)
    request = RunRequest(
        model=str(path),
        drop_outputs=("features", "aux", "aux"),
        shapes={"x": (1, 6)},
        objectives=("latency",),
        store=tmp_path / "store",
    ).checked()
    assert request.drop_outputs == ("aux", "features")
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        assert ready.study.options["drop"] == "aux\nfeatures"
        built = ready.workshop.build(dict(ready.spaces["local"].standard())["exact"].recipe)
        ready.workshop.verify(built)
    assert [value.name for value in built.graph.graph.outputs] == ["logits"]
    assert [node.op_type for node in built.graph.graph] == ["MatMul", "Relu", "MatMul"]
    assert dropped.said(built.recipe) == [
        "It has no output 'aux'; the given model has.",
        "It has no output 'features'; the given model has.",
    ]
    recipe = tmp_path / "one.recipe"
    recipe.write_text(built.recipe.text, encoding="utf-8")
    again = replay(
        recipe,
        str(path),
        out=tmp_path / "out.onnx",
        data=None,
        store=tmp_path / "store",
        seed=0,
        progress=lambda _: None,
    )
    assert again.path.read_bytes() == to_bytes(built.graph)


def test_without_the_option_every_output_stays(tmp_path: Path) -> None:
    """Nothing is offered, and a graph that lacks an output does not pass for equal."""
    request = RunRequest(
        model=str(_with_aux(tmp_path)),
        shapes={"x": (1, 6)},
        objectives=("latency",),
        store=tmp_path / "store",
    ).checked()
    with prepared(request, lambda _: None, lambda: False, keep=False) as ready:
        assert "drop" not in ready.study.options
        assert not any("drop_output" in c.name for c in ready.spaces["local"].choices)
        action = Action.of("drop_output", "aux")
        built = ready.workshop.build(ready.workshop.recipe([action]))
    graph = open_graph(read_model(tmp_path / "model.onnx"))
    feed = {"x": np.ones((1, 6), np.float32)}
    found = Reference.of(graph, [feed])
    assert "the output 'aux' is gone" in found.compare(built.graph).reason
    assert found.compare(built.graph, without={"aux"}).ok
    assert not found.compare(built.graph, without={"logits"}).ok
    assert dropped.said(Recipe(baseline="sha256:0")) == []


def test_on_the_command_line(tmp_path: Path, edgeopt: Callable[..., Finished]) -> None:
    """Exit code 2 without a trace for a name that is none."""
    path = _with_aux(tmp_path)
    done = edgeopt("run", path, "--drop-output", "head", "--shape", "x=1x6", "--dry-run")
    assert done.code == 2
    assert "no output 'head' to drop" in done.err
    assert "Traceback" not in done.err
    assert onnx.load(path).graph.output[1].name == "aux"
