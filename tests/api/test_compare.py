"""`edgeopt compare` on a store with two trials of a real tiny model, and on two files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgeopt.api.compare import compare
from edgeopt.api.layers import LayerReader, kept_at, layer_folder, layer_tables, read_table
from edgeopt.api.reopen import reopen
from edgeopt.api.report import study_document
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Action
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.samples import Samples
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import UsageError
from edgeopt.graph.read import read_model
from edgeopt.graph.write import write_model
from edgeopt.report.layers import rows
from edgeopt.testing import graphs
from tests.conftest import called_here

FOLD = (Action.of("fold_batchnorm", "bn1"), Action.of("fold_batchnorm", "bn2"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model.onnx`, `folded.onnx` and a store: the given model and a folded one."""
    folder = tmp_path_factory.mktemp("compared")
    model = read_model(graphs.write(graphs.conv_bn(), folder))
    study = Study(
        model_name="model",
        baseline=model.digest,
        data="",
        metric="",
        objectives=(Objective(metric="latency"), Objective(metric="size")),
        devices=("local",),
        strategy="random",
        options={"shapes": "[('x', (1, 3, 8, 8))]"},
        origin={"model": str(model.path), "opset_ceiling": "21"},
    )
    with Workspace.open(folder / "store") as workspace:
        again = reopen(study, workspace)
        built = again.workshop.build(again.workshop.recipe(FOLD))
        folded = write_model(built.graph, folder / "folded.onnx")
        workspace.trials.save_study(study)
        pairs = [(again.workshop.recipe(), model.digest), (built.recipe, folded.digest)]
        for number, (recipe, digest) in enumerate(pairs):
            outcome = _measured((1.0, 0.6)[number], (5000.0, 4000.0)[number])
            workspace.trials.add(
                study.id,
                Trial(
                    number=number,
                    candidate=Candidate(recipe=recipe),
                    device="local",
                    protocol="normal",
                    strategy="static",
                    label=("baseline", "")[number],
                    outcome=outcome,
                    model_digest=digest,
                ),
            )
    return folder


def _measured(ratio: float, size: float) -> Measurement:
    blocks = tuple((ratio * each, ratio * each * 1.001) for each in (1e-3, 1.01e-3, 0.99e-3, 1e-3))
    beside = ((1e-3, 1e-3), (1.01e-3, 1.01e-3), (0.99e-3, 0.99e-3), (1e-3, 1.001e-3))
    taken = Samples(unit="s", blocks=blocks, baseline=beside, rounds=(0, 1, 2, 3))
    ratio_found = taken.ratio
    latency = Value(
        value=1e-3 * ratio_found.value, unit="s", interval=ratio_found.scaled(1e-3), samples=taken
    )
    return Measurement(values={"latency": latency, "size": Value(value=size, unit="B")})


def _compare(place: Path, a: str, b: str, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"study": None, "device": None, "data": None, **more}
    return compare(a, b, store=place / "store", progress=lambda _: None, **asked)


def test_two_trials_differ_by_what_their_recipes_did(place: Path) -> None:
    """The folded normalisations are gone, the convolutions bear their names and weights."""
    found = _compare(place, "given", "c1")
    assert (found["a"]["name"], found["b"]["name"]) == ("c0", "c1")
    gone = {each["value"]: each for each in found["layers"] if each["status"] == "gone"}
    assert set(gone) == {"bn1", "bn2"}
    convolution = next(e for e in found["layers"] if e["value"] == "bn1" and e["b"] is not None)
    assert convolution["a"]["operator"] == convolution["b"]["operator"] == "Conv"
    assert convolution["actions"]["b"] == [FOLD[0].text]
    assert convolution["b"]["snr_db"] > 60
    latency = found["metrics"][0]
    assert latency["change"] == pytest.approx(0.6, rel=0.01)
    assert latency["text"].startswith("1.67× faster")


def test_what_ran_is_not_claimed_where_nobody_asked(place: Path) -> None:
    """These trials have no profile."""
    found = _compare(place, "0", "1")
    assert "c1: what ran: it was not asked" in found["absent"]
    assert all(not each["b"]["ran"] for each in found["layers"] if each["b"])


def test_two_files_are_compared_without_a_store_of_their_own(place: Path) -> None:
    """Exact facts, and values on random inputs, which is said."""
    found = _compare(
        place,
        str(place / "model.onnx"),
        str(place / "folded.onnx"),
        shapes={"x": (1, 3, 8, 8)},
    )
    assert {each["metric"] for each in found["metrics"]} >= {"size", "macs", "params"}
    assert any("random inputs" in sentence for sentence in found["absent"])
    last = found["layers"][-1]
    assert (last["value"], last["status"]) == ("y", "same")
    assert last["b"]["snr_db"] > 60


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("given", "c9", "has no trial c9"),
        ("given", "folded.onnx", "cannot be compared"),
        ("model.onnx", "other.onnx", "take other inputs"),
        ("given", "c1", ""),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(place: Path, a: str, b: str, message: str) -> None:
    """Never a trace; and what can be compared is."""
    graphs.write(graphs.lstm(), place, "other.onnx")
    names = [str(place / name) if name.endswith(".onnx") else name for name in (a, b)]
    if not message:
        assert _compare(place, *names)["layers"]
        return
    with pytest.raises(UsageError, match=message):
        _compare(place, *names)


def test_a_report_has_the_tables_and_keeps_them(place: Path) -> None:
    """The second report needs neither model nor workshop; a damaged file is made again."""
    first = study_document(None, store=place / "store", progress=lambda _: None)
    points = {p["id"]: p for p in first["candidates"]["local"]}
    assert [r["value"] for r in rows(first, points["c1"])] == ["bn1", "relu1", "bn2", "y"]
    again = study_document(None, store=place / "store")
    assert again["layers"] == first["layers"]
    with Workspace.open(place / "store") as workspace:
        study = workspace.trials.studies()[-1]
        recipe = workspace.trials.trials(study.id)[1].candidate.recipe
        path = kept_at(layer_folder(workspace), recipe)
    path.write_text("{", encoding="utf-8")
    assert read_table(path) is None
    third = study_document(None, store=place / "store", progress=lambda _: None)
    assert third["layers"] == first["layers"]


def test_out_of_time_says_how_to_get_the_rest(place: Path, tmp_path: Path) -> None:
    """Reading layers never holds a run up for long."""
    with Workspace.open(place / "store") as workspace:
        study = workspace.trials.studies()[-1]
        again = reopen(study, workspace)
        reader = LayerReader(workshop=again.workshop, feeds=again.feeds(1), folder=tmp_path)
        trials = workspace.trials.trials(study.id)
        found, reason = layer_tables(trials, reader, limit_s=-1.0, progress=lambda _: None)
    assert found == {}
    assert "`edgeopt report` does it" in reason


def test_the_command_prints_text_and_json(place: Path) -> None:
    """Results on stdout, messages on stderr."""
    line = ["compare", "given", "c1", "--store", "store"]
    text = called_here(*line, cwd=place)
    assert text.code == 0
    assert "fold_batchnorm" in text.out
    assert "reading the layers" in text.err
    made = called_here(*line, "--json", cwd=place)
    assert json.loads(made.out)["counts"]["gone"] == 2


def test_without_the_model_a_report_says_why_it_has_no_layers(place: Path, tmp_path: Path) -> None:
    """The metrics are there all the same, in the report and in a comparison."""
    shutil.copytree(place / "store", tmp_path / "store", ignore=shutil.ignore_patterns("layers"))
    shutil.copy(place / "model.onnx", tmp_path)
    (place / "model.onnx").rename(place / "moved.onnx")
    try:
        made = study_document(None, store=tmp_path / "store", progress=lambda _: None)
        found = _compare(tmp_path, "given", "c1")
    finally:
        (place / "moved.onnx").rename(place / "model.onnx")
    points = made["candidates"]["local"]
    assert all("no longer at" in point["layers_absent"] for point in points)
    assert found["metrics"][0]["metric"] == "latency"
    assert found["layers"] == []
    assert any("no longer at" in sentence for sentence in found["absent"])
