"""`edgeopt export`: a folder with everything that a model needs to run elsewhere, checked."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from edgeopt.api import dropped, frozen
from edgeopt.api.reopen import Reopened, reopen
from edgeopt.api.workspace import Workspace, ensure_folder
from edgeopt.core.data import Array, Feed
from edgeopt.core.trial import Trial
from edgeopt.errors import StorageError, UsageError, WrongOutputError
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import write_model
from edgeopt.units import format_value

SAMPLES = 8


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Where a model was exported to, and what its own check said."""

    folder: Path
    files: tuple[str, ...]
    verified: str


def export(study: str, trial_id: str, folder: Path, *, store: Path | None) -> Exported:
    """Write model, settings, samples, recipe, card and verify script; then run the script.

    The model is rebuilt from its recipe, so what is exported is what the recipe says.

    Raises:
        UsageError: No such study or trial, or the trial failed.
        WrongOutputError: The verify script did not agree.
    """
    with Workspace.open(store) as workspace:
        question = workspace.trials.study(study)
        trial = find_trial(workspace.trials.trials(question.id), trial_id)
        again = reopen(question, workspace)
        ensure_folder(folder)
        _write(again, trial, folder)
    checked = subprocess.run(
        [sys.executable, str(folder / "verify.py")], capture_output=True, text=True, check=False
    )
    if checked.returncode != 0:
        raise WrongOutputError(
            f"the exported model does not compute what it did: {checked.stdout or checked.stderr}",
            where=str(folder),
            hint="do not deploy it; please report this with the recipe in the folder",
        )
    names = tuple(sorted(path.name for path in folder.iterdir()))
    return Exported(folder=folder, files=names, verified=checked.stdout.strip())


def find_trial(trials: Sequence[Trial], trial_id: str) -> Trial:
    """A usable trial by id (`c12` or `12`).

    Raises:
        UsageError: No such trial, or it failed.
    """
    by_number = {str(trial.number): trial for trial in trials}
    trial = by_number.get(trial_id.removeprefix("c"))
    if trial is None:
        raise UsageError(
            f"the study has no trial {trial_id!r}",
            hint="ids stand in the report and in `edgeopt report --json`",
        )
    if trial.measurement is None:
        raise UsageError(f"trial {trial_id} has no usable measurement", hint="choose another one")
    return trial


def _write(again: Reopened, trial: Trial, folder: Path) -> None:
    model = folder / "model.onnx"
    if trial.candidate.is_baseline:
        _copy_as_it_is(again.model.path, model)
    else:
        write_model(again.workshop.build(trial.candidate.recipe).graph, model)
    runtime = trial.candidate.runtime
    feeds = again.feeds(SAMPLES)
    outputs, tolerance = _outputs(model, again, feeds, trial)
    inputs = {f"{i}/{name}": array for i, feed in enumerate(feeds) for name, array in feed.items()}
    np.savez_compressed(folder / "inputs.npz", **inputs)  # pyright: ignore[reportArgumentType]
    np.savez_compressed(folder / "outputs.npz", **outputs)  # pyright: ignore[reportArgumentType]
    settings = {
        "provider": runtime.provider,
        "threads": runtime.threads,
        "spinning": runtime.spinning,
        "optimization": runtime.optimization,
        "options": dict(runtime.options),
        "samples": len(feeds),
        "tolerance": tolerance,
    }
    (folder / "runtime.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    (folder / "recipe.txt").write_text(trial.candidate.recipe.text, encoding="utf-8")
    (folder / "card.md").write_text(_card(trial, again), encoding="utf-8")
    script = resources.files("edgeopt.device_agent") / "verify_exported.py"
    (folder / "verify.py").write_text(script.read_text(encoding="utf-8"), encoding="utf-8")


def _copy_as_it_is(source: Path, target: Path) -> None:
    """The user's own file with its external data, byte for byte."""
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise StorageError(f"cannot copy the model: {error.strerror}", where=str(target)) from error


def _outputs(
    model: Path, again: Reopened, feeds: Sequence[Feed], trial: Trial
) -> tuple[Mapping[str, Array], float]:
    """Outputs of the exported file, and how far the runtime's own settings move them.

    The tolerance is ten times the spread between the runtime with its optimizations on and off
    here, since another processor takes other kernels; at least 1e-4 of the largest output.
    """
    plain = Session(model, trial.candidate.runtime)
    other = Session(model, again.without_optimization(trial.candidate.runtime))
    found: dict[str, Array] = {}
    spread, largest = 0.0, 0.0
    for index, feed in enumerate(feeds):
        first, second = plain.run(feed), other.run(feed)
        for name, array in first.items():
            found[f"{index}/{name}"] = array
            if array.dtype.kind == "f" and array.size:
                spread = max(spread, float(np.abs(array - second[name]).max()))
                largest = max(largest, float(np.abs(array).max()))
    return found, max(10 * spread, 1e-4 * largest)


def _card(trial: Trial, again: Reopened) -> str:
    lines = [
        f"# {again.study.model_name}, trial c{trial.number}",
        "",
        f"Measured on `{trial.device}` under the `{trial.protocol}` protocol by edgeopt.",
        f"Runtime: {trial.candidate.runtime.text}.",
        *frozen.said(trial.candidate.recipe),
        *dropped.said(trial.candidate.recipe),
        "",
        "| metric | value | 95 % interval | note |",
        "|---|---|---|---|",
    ]
    measurement = trial.measurement
    for name, value in sorted(measurement.values.items()) if measurement else ():
        interval = value.interval
        bounds = (
            f"{format_value(interval.low, value.unit)} to {format_value(interval.high, value.unit)}"
            if interval
            else ""
        )
        lines.append(
            f"| {name} | {format_value(value.value, value.unit)} | {bounds} | {value.note} |"
        )
    lines += [
        "",
        "Check it where it will run: `python verify.py` (numpy and onnxruntime alone).",
        "",
    ]
    return "\n".join(lines)
