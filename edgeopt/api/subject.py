"""What a command is about: a model, its data, and how good outputs are told from bad ones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgeopt.api import zoo
from edgeopt.core.data import DataSet
from edgeopt.core.model import Model
from edgeopt.core.protocols import AccuracyMetric
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.read import DataOptions, read_data
from edgeopt.errors import ModelError, UsageError
from edgeopt.graph.read import read_model

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model with its data.

    Args:
        name: As the user gave it, without folder and suffix.
        model: The user's file.
        data: None when there is no data: then only exact actions are searched.
        metric_name: `agreement` without labels; empty without data.
        metric: None without data.
        data_spec: How the data can be opened again; files as absolute paths.
    """

    name: str
    model: Model
    data: DataSet | None
    metric_name: str
    metric: AccuracyMetric | None
    data_spec: str = ""


def open_model(model: str | Path, progress: Progress) -> tuple[str, Model, str | None]:
    """A model by file or by zoo name: its name, the model, and the zoo's data where it has any.

    Raises:
        ModelError: Neither a file nor a name in the zoo, or the file cannot be used.
    """
    path = Path(model)
    if path.exists() or path.suffix or path.parent != Path():
        return path.stem, read_model(path), None
    if str(model) not in {entry.name for entry in zoo.list_models()}:
        raise ModelError(
            f"{str(model)!r} is neither a file nor a model of the zoo",
            hint="give the path of an .onnx file, or a name from `edgeopt zoo list`",
        )
    files = zoo.find(str(model)) or zoo.get(str(model), None, progress)
    return str(model), read_model(files.model), str(files.data)


def open_subject(
    model: str | Path,
    *,
    data: str | None,
    metric: str | None,
    seed: int,
    progress: Progress,
) -> Subject:
    """Open model and data, and check that they meet.

    Raises:
        ModelError, DataError, UsageError: What was given cannot be used.
    """
    name, opened, zoo_data = open_model(model, progress)
    spec = data or zoo_data
    if spec is None:
        if metric:
            raise UsageError("a metric was given, but no data", hint="add --data FILE.npz")
        return Subject(name=name, model=opened, data=None, metric_name="", metric=None)
    options = DataOptions(seed=seed)
    samples = read_data(spec, opened, options)
    chosen = metric or samples.metric or ("top1" if samples.labelled else "agreement")
    return Subject(
        name=name,
        model=opened,
        data=samples,
        metric_name=chosen,
        metric=load_metric(chosen, samples.metric_options),
        data_spec=spec if spec.startswith("python:") else str(Path(spec).resolve()),
    )
