"""`edgeopt gate update --from`: limits out of a file, an exported folder or a trial of a study."""

import datetime
import shutil
from pathlib import Path

import pytest

from edgeopt.api.gate import check
from edgeopt.api.gate_case import GateRequest
from edgeopt.api.gate_update import Update, update
from edgeopt.api.reopen import reopen
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Action
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Measurement, Value
from edgeopt.core.objective import Objective
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import EdgeOptError, UsageError
from edgeopt.graph.read import read_model
from edgeopt.graph.write import write_model
from edgeopt.testing import graphs

FILE = """# ours\r
[gate]\r
model = "net.onnx"\r
\r
[[gate.budget]]\r
metric = "size" # of the file\r
max = "4 MB" # until spring\r
\r
[[gate.budget]]\r
metric = "ops"\r
max = 3\r
hint = "why"\r
"""
AWAY = '[[gate.budget]]\nmetric = "load"\ndevice = "no-such-board.invalid"\nmax = "1 s"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A study of two trials: the given model, and one whose normalisations are folded."""
    model = read_model(graphs.write(graphs.conv_bn(), tmp_path))
    study = Study(
        model_name="model",
        baseline=model.digest,
        data="",
        metric="",
        objectives=(Objective(metric="latency"),),
        devices=("local",),
        strategy="random",
        options={"shapes": "[('x', (1, 3, 8, 8))]"},
        origin={"model": str(model.path), "opset_ceiling": "21"},
    )
    with Workspace.open(tmp_path / "store") as workspace:
        again = reopen(study, workspace)
        built = again.workshop.build(again.workshop.recipe((Action.of("fold_batchnorm", "bn1"),)))
        folded = write_model(built.graph, tmp_path / "folded.onnx")
        workspace.trials.save_study(study)
        pairs = [(again.workshop.recipe(), model.digest), (built.recipe, folded.digest)]
        for number, (recipe, digest) in enumerate(pairs):
            workspace.trials.add(
                study.id,
                Trial(
                    number=number,
                    candidate=Candidate(recipe=recipe),
                    device="local",
                    protocol="normal",
                    strategy="static",
                    outcome=Measurement(values={"size": Value(value=1.0, unit="B")}),
                    model_digest=digest,
                ),
            )
    shutil.copy(model.path, tmp_path / "net.onnx")
    (tmp_path / "edgeopt.toml").write_bytes(FILE.encode())
    return tmp_path


def _request(folder: Path) -> GateRequest:
    return GateRequest(config=folder / "edgeopt.toml", today=datetime.date(2027, 1, 31))


def _update(folder: Path, candidate: str, **more: object) -> list[str]:
    asked = Update(candidate=candidate, store=folder / "store", **more)
    return update(_request(folder), lambda _: None, asked)


def _limits(folder: Path) -> tuple[float | None, ...]:
    return tuple(f.budget.limit for f in check(_request(folder), lambda _: None).findings)


def test_from_a_file(project: Path):
    """Only the two values change: comments, order and line ends stay; what moved where is said."""
    told = _update(project, str(project / "folded.onnx"))
    text = (project / "edgeopt.toml").read_bytes().decode()
    size = (project / "folded.onnx").stat().st_size
    assert text.count("\r\n") == FILE.count("\r\n")
    changed = [
        (old, new)
        for old, new in zip(FILE.split("\r\n"), text.split("\r\n"), strict=True)
        if old != new
    ]
    assert [new.partition(" = ")[0] for _, new in changed] == ["max", "max"]
    assert changed[0][1].endswith(" # until spring")
    limits = _limits(project)
    assert size <= limits[0] <= size * 1.01
    assert "tighter than before" in told[0]
    assert "LOOSER than before" in told[1]
    assert "is still another model" in told[2]


def test_from_a_trial(project: Path):
    """It is built as an export builds it, and what is left to do is said."""
    told = _update(project, "c1")
    shutil.copy(project / "folded.onnx", project / "net.onnx")
    assert check(_request(project), lambda _: None).code == 0
    assert "edgeopt export model-" in told[-1]
    assert "c1 -o OUT" in told[-1]
    again = _update(project, "c1")
    assert [line.rpartition(", ")[2] for line in again[:2]] == ["as it was", "as it was"]


def test_from_an_exported_folder(project: Path):
    """The model in it; the given one is the baseline's trial too."""
    (project / "out").mkdir()
    shutil.copy(project / "net.onnx", project / "out" / "model.onnx")
    told = _update(project, str(project / "out"))
    assert len(told) == 2
    limits = _limits(project)
    assert _update(project, "c0")
    assert _limits(project) == limits


@pytest.mark.parametrize("candidate", ["c9", "nowhere.onnx", "fastest"])
def test_candidates_that_are_none(project: Path, candidate: str):
    """Nothing is written."""
    with pytest.raises(UsageError):
        _update(project, candidate)
    assert (project / "edgeopt.toml").read_bytes() == FILE.encode()


def test_without_evidence_nothing_is_written(project: Path):
    """A device that is away: neither lock nor limits."""
    (project / "edgeopt.toml").write_text(FILE + AWAY)
    before = (project / "edgeopt.toml").read_bytes()
    with pytest.raises(EdgeOptError, match="nothing was written") as caught:
        _update(project, "c1")
    assert caught.value.exit_code == 3
    assert (project / "edgeopt.toml").read_bytes() == before
    assert not (project / "edgeopt.lock").exists()


@pytest.mark.parametrize("budgets", ["", '[[gate.budget]]\nmetric = "ops"\nmax = 3\n'])
def test_nothing_to_write(project: Path, budgets: str):
    """No budgets, or none that a device measures: no empty lock appears."""
    (project / "edgeopt.toml").write_text('[gate]\nmodel = "net.onnx"\n' + budgets)
    with pytest.raises(EdgeOptError) as caught:
        update(_request(project), lambda _: None)
    assert caught.value.exit_code == 5
    assert not (project / "edgeopt.lock").exists()
