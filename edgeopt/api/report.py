"""`edgeopt report`: the document of a study, and everything that renders it.

What the trials do not know (sample counts, bounds, versions) is kept beside the store when a run
ends, so that a report can be written again without model and data.
"""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edgeopt import __version__
from edgeopt.api.layers import LayerReader, Progress, kept_tables, layer_folder, layer_tables
from edgeopt.api.reopen import reopen
from edgeopt.api.workspace import Workspace, ensure_folder
from edgeopt.core import codec
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import EdgeOptError, NothingToDoError, StorageError, UsageError
from edgeopt.graph.noise import INPUTS
from edgeopt.report.document import ReportContext, document, tabled
from edgeopt.report.files import write_file, write_report
from edgeopt.report.formats import FORMATS, rendered, schema
from edgeopt.report.lines import WIDTH

LAYERS_S = 300.0
"""How long a report that is written again may read layers: builds are repeated for it."""
_WITH_LAYERS = frozenset({"html", "md", "json"})
_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnx_ir", "onnxoptimizer")


def versions() -> Mapping[str, str]:
    """What a result depends on."""
    found = {package: version(package) for package in _PACKAGES}
    return {"edgeopt": __version__, "python": platform.python_version(), **found}


def now() -> str:
    """The time, ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def keep_context(workspace: Workspace, study: Study, context: ReportContext) -> None:
    """Remember what the trials of a study do not know."""
    lasting = replace(context, models={}, flips={}, layer_tables={}, rivals={}, store="")
    text = json.dumps(codec.encode(lasting), indent=2)
    path = _context_path(workspace, study)
    ensure_folder(path.parent)
    aside = path.with_suffix(".tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def complete(
    context: ReportContext, workspace: Workspace, study: Study, trials: Sequence[Trial]
) -> ReportContext:
    """The context with what follows from the trials and from the files that are there."""
    models: dict[str, str] = {}
    flips: dict[int, tuple[int, int]] = {}
    for trial in trials:
        path = workspace.model_path(study.id, trial.candidate.recipe.digest)
        if trial.candidate.is_baseline:
            models[trial.model_digest] = study.origin.get("model", "")
        elif trial.model_digest and path.is_file():
            models[trial.model_digest] = str(path)
        for name in ("accuracy", "agreement"):
            value = trial.value(name)
            if value is not None and value.flips is not None:
                flips[trial.number] = value.flips
    return replace(
        context,
        models=models,
        flips=flips,
        layer_tables=kept_tables(tabled(study, trials, context), workspace),
        rivals=_rivals(workspace, study),
        store="" if workspace.found_by_itself else str(workspace.folder),
    )


def read_layers(
    context: ReportContext,
    study: Study,
    trials: Sequence[Trial],
    reader: Callable[[], LayerReader],
    *,
    limit_s: float,
    progress: Progress,
) -> ReportContext:
    """Make the layer tables that a report shows and nobody made before; they are kept.

    Args:
        context: Of the report.
        study: With these trials.
        trials: All of the study.
        reader: Asked only where a table is missing.
        limit_s: After so long no further table is begun.
        progress: Told which one is made.

    Returns:
        The context, with the reason why a table is still missing.
    """
    wanted = sorted(tabled(study, trials, context), key=lambda t: t.label in context.peer_labels)
    if all(trial.model_digest in context.layer_tables for trial in wanted):
        return context
    try:
        made, reason = layer_tables(wanted, reader(), limit_s=limit_s, progress=progress)
    except EdgeOptError as error:
        return replace(context, layers_absent=f"the model could not be opened again: {error.what}")
    absent = reason or context.layers_absent
    return replace(context, layer_tables={**context.layer_tables, **made}, layers_absent=absent)


def _rivals(workspace: Workspace, study: Study) -> Mapping[str, tuple[Trial, ...]]:
    """Other searches of the same question: all but strategy and seed are equal."""
    found: dict[str, tuple[Trial, ...]] = {}
    for other in workspace.trials.studies():
        same = replace(
            other, strategy=study.strategy, seed=study.seed, origin=study.origin
        ) == replace(study, model_name=other.model_name)
        if same and other.id != study.id:
            name = f"{other.strategy} (seed {other.seed})"
            found[name] = workspace.trials.trials(other.id)
    return found


def study_document(
    study: str | None, *, store: Path | None, progress: Progress | None = None
) -> dict[str, Any]:
    """The document of a study, the latest one when none is named.

    Args:
        study: Id or its beginning.
        store: The workspace.
        progress: Told which layer tables are made; None makes none and takes those that are kept.

    Raises:
        UsageError: No such study.
        NothingToDoError: There is no study at all.
    """
    with Workspace.open(store) as workspace:
        question = find_study(workspace, study)
        trials = workspace.trials.trials(question.id)
        path = _context_path(workspace, question)
        context = ReportContext(created=now(), versions=versions(), interrupted=True)
        if path.is_file():
            context = codec.decode(ReportContext, json.loads(path.read_text(encoding="utf-8")))
        context = complete(context, workspace, question, trials)
        if progress is not None:
            context = read_layers(
                context,
                question,
                trials,
                lambda: _reader(question, workspace),
                limit_s=LAYERS_S,
                progress=progress,
            )
        return document(question, trials, context)


def _reader(study: Study, workspace: Workspace) -> LayerReader:
    again = reopen(study, workspace)
    return LayerReader(
        workshop=again.workshop, feeds=again.feeds(INPUTS), folder=layer_folder(workspace)
    )


def find_study(workspace: Workspace, study: str | None) -> Study:
    """A study by id or its beginning; the latest one when none is named.

    Raises:
        UsageError: No such study, or several.
        NothingToDoError: There is no study at all.
    """
    if study is not None:
        return workspace.trials.study(study)
    known = workspace.trials.studies()
    if not known:
        raise NothingToDoError(
            "there is no study here yet",
            where=str(workspace.folder),
            hint="run one: edgeopt run MODEL --data FILE.npz",
        )
    return known[-1]


def report(
    study: str | None, *, out: Path | None, store: Path | None, progress: Progress
) -> Mapping[str, Path]:
    """Write all formats into a folder; `reports/<study>` when none is given.

    Raises:
        UsageError: No such study.
        StorageError: The folder cannot be written.
    """
    found = study_document(study, store=store, progress=progress)
    folder = out or Path("reports") / str(found["study"]["id"])
    found["report"] = str(folder / "report.html")
    ensure_folder(folder)
    return write_report(found, folder)


def render(
    study: str | None,
    form: str,
    *,
    store: Path | None,
    progress: Progress,
    device: str | None = None,
    width: int = WIDTH,
) -> str | bytes:
    """One format, as text or as the bytes of an image.

    Args:
        study: Id or its beginning; the latest when None.
        form: One of `report.formats.FORMATS`.
        store: The workspace.
        progress: Told which layer tables are made, for the formats that show them.
        device: Whose front a figure shows.
        width: Characters of a line, for `terminal`.

    Raises:
        UsageError: There is no such format, device or figure.
    """
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}", hint=f"known: files, {', '.join(FORMATS)}")
    if form == "schema":
        return schema()
    found = study_document(study, store=store, progress=progress if form in _WITH_LAYERS else None)
    return rendered(found, form, device=device, width=width)


def write_one(path: Path, content: str | bytes) -> Path:
    """Write one format to a file.

    Raises:
        StorageError: It cannot be written.
    """
    ensure_folder(path.absolute().parent)
    try:
        return write_file(path, content)
    except OSError as error:
        raise StorageError(
            f"the report cannot be written ({error.strerror})",
            where=str(path),
            hint="free disk space or choose another file with --out",
        ) from error


def _context_path(workspace: Workspace, study: Study) -> Path:
    return workspace.folder / "studies" / f"{study.id}.json"
