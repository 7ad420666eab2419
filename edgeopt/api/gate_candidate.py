"""The model that `gate update --from` is about: a file, an exported folder, a trial of a study."""

import re
from dataclasses import dataclass
from pathlib import Path

from edgeopt.api.export import find_trial
from edgeopt.api.reopen import reopen
from edgeopt.api.report import find_study
from edgeopt.api.workspace import Workspace
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.errors import UsageError
from edgeopt.graph.write import write_model

_TRIAL = re.compile(r"c?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A candidate's model.

    Args:
        model: Its file.
        fetch: The command that puts it in the project's place; empty where it is a file already.
        note: What a reader should know beside it; empty without.
    """

    model: Path
    fetch: str = ""
    note: str = ""


def chosen(candidate: str, folder: Path, *, study: str | None, store: Path | None) -> Chosen:
    """The model of a candidate.

    Args:
        candidate: A file, a folder that `edgeopt export` wrote, or a trial's id.
        folder: Where a trial's model is built.
        study: Of a trial; None is the latest.
        store: Where studies lie; None is the usual place.

    Raises:
        UsageError: There is no such file and no such trial.
    """
    path = Path(candidate)
    if path.is_dir():
        return Chosen(model=path / "model.onnx")
    if path.exists() or not _TRIAL.fullmatch(candidate):
        if not path.exists():
            raise UsageError(
                f"--from {candidate!r} is neither a file nor a trial",
                hint="give an .onnx file, a folder that `edgeopt export` wrote, or a trial's id "
                "such as c12 (with --study where it is not of the latest study)",
            )
        return Chosen(model=path)
    with Workspace.open(store) as workspace:
        question = find_study(workspace, study)
        trial = find_trial(workspace.trials.trials(question.id), candidate)
        again = reopen(question, workspace)
        model = again.model.path
        if not trial.candidate.is_baseline:
            model = folder / f"{candidate}.onnx"
            write_model(again.workshop.build(trial.candidate.recipe).graph, model)
    runtime = trial.candidate.runtime
    usual = RuntimeSettings(provider=runtime.provider)
    return Chosen(
        model=model,
        fetch=f"edgeopt export {question.id} c{trial.number} -o OUT, then copy OUT/model.onnx",
        note="" if runtime == usual else f"the study ran it with {runtime.text}, the gate does not",
    )
