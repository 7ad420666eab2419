"""`edgeopt compare`: two trials or two files beside each other, per metric and per layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeopt.api.layers import LayerReader, Progress, layer_folder
from edgeopt.api.reopen import reopen, workshop_for
from edgeopt.api.report import find_study, study_document
from edgeopt.api.subject import Subject, open_model, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.data import Feed
from edgeopt.core.layers import LayerTable
from edgeopt.core.lowered import Lowered
from edgeopt.core.model import Model
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.errors import EdgeOptError, UsageError
from edgeopt.graph.cost import static_cost
from edgeopt.graph.inputs import random_feeds
from edgeopt.graph.noise import INPUTS
from edgeopt.graph.read import open_graph
from edgeopt.report.difference import Side, difference
from edgeopt.report.difference_text import difference_markdown, difference_text
from edgeopt.report.layers import Tables, executed, rows
from edgeopt.report.points import identity

GIVEN = ("given", "baseline")
_OPSET = 21


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What one of the two names is: a trial of a study, or a file."""

    name: str
    trial: Trial | None = None
    point: dict[str, Any] | None = None
    file: Model | None = None


def compare(
    a: str,
    b: str,
    *,
    study: str | None,
    device: str | None,
    data: str | None,
    store: Path | None,
    progress: Progress,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, Any]:
    """What changes from one model to another.

    Args:
        a: `c12` of the study, `given`, or an ONNX file (also a name of the zoo).
        b: As `a`; two files, or two of the study.
        study: Id or its beginning; the latest when None.
        device: Which device `given` is meant on; None takes the other one's.
        data: For two files: real inputs to compare values on.
        store: The workspace.
        progress: Told what takes time.
        shapes: For two files without data: input name to its shape where axes are free.

    Raises:
        UsageError: No such trial, one of each kind, or a file that takes other inputs.
    """
    kinds = [_is_trial(name) for name in (a, b)]
    if all(kinds):
        return _trials(a, b, study=study, device=device, store=store, progress=progress)
    if any(kinds):
        raise UsageError(
            "a trial of a study and a file cannot be compared",
            where=f"{a}, {b}",
            hint="export the trial first (`edgeopt export STUDY ID -o DIR`) and compare the files",
        )
    return _files(a, b, data=data, shapes=shapes, store=store, progress=progress)


def shown(found: dict[str, Any], form: str, *, everything: bool, width: int) -> str:
    """A comparison as text.

    Raises:
        UsageError: There is no such format.
    """
    if form == "md":
        return difference_markdown(found, everything=everything)
    if form == "text":
        return difference_text(found, everything=everything, width=width)
    raise UsageError(f"there is no format {form!r}", hint="known: text, md, json")


def _is_trial(name: str) -> bool:
    number = name.removeprefix("c")
    return name in GIVEN or (number.isdecimal() and not Path(name).exists())


def _trials(
    a: str, b: str, *, study: str | None, device: str | None, store: Path | None, progress: Progress
) -> dict[str, Any]:
    document = study_document(study, store=store)
    with Workspace.open(store) as workspace:
        question = find_study(workspace, str(document["study"]["id"]))
        trials = workspace.trials.trials(question.id)
        place = device or _device_of(document, a) or _device_of(document, b)
        asked = [_asked(name, document, trials, place) for name in (a, b)]
        tables, absent = _tables(question, asked, workspace, progress)
    sides = [_side(each, tables.get(each.name), absent) for each in asked]
    return difference(*sides, study=question.id)


def _device_of(document: dict[str, Any], name: str) -> str | None:
    """The device that a trial was measured on."""
    wanted = f"c{name.removeprefix('c')}"
    for device, points in document["candidates"].items():
        if any(point["id"] == wanted for point in points):
            return str(device)
    return None


def _asked(
    name: str, document: dict[str, Any], trials: Sequence[Trial], device: str | None
) -> _Asked:
    place = device or next(iter(document["study"]["devices"]))
    if name in GIVEN:
        base = document["baseline"].get(place)
        if base is None:
            raise UsageError(
                f"the given model has no valid measurement on {place}",
                hint=f"devices of the study: {', '.join(document['study']['devices'])}",
            )
        name = base["id"]
    wanted = f"c{name.removeprefix('c')}"
    points = [p for found in document["candidates"].values() for p in found]
    point = next((p for p in points if p["id"] == wanted), None)
    trial = next((t for t in trials if identity(t) == wanted), None)
    if trial is None:
        raise UsageError(
            f"the study {document['study']['id']} has no trial {wanted}",
            hint="ids stand in the report; `given` is the model of the study",
        )
    if point is None:
        newer = next(
            (p["id"] for p in points if p["recipe_digest"] == trial.candidate.recipe.digest), ""
        )
        raise UsageError(
            f"{wanted} was measured again later",
            hint=f"its stronger measurement is {newer}" if newer else "choose another one",
        )
    if not point["metrics"]:
        raise UsageError(f"{wanted} has no usable measurement", hint="choose another one")
    return _Asked(name=wanted, trial=trial, point={**point, "device": trial.device})


def _tables(
    study: Study, asked: Sequence[_Asked], workspace: Workspace, progress: Progress
) -> tuple[dict[str, LayerTable], str]:
    progress("reading the layers of both")
    try:
        again = reopen(study, workspace)
        reader = LayerReader(
            workshop=again.workshop, feeds=again.feeds(INPUTS), folder=layer_folder(workspace)
        )
        return {
            each.name: reader.table(each.trial.candidate.recipe)
            for each in asked
            if each.trial is not None
        }, ""
    except EdgeOptError as error:
        return {}, f"layers: {error.what}"


def _side(asked: _Asked, table: LayerTable | None, absent: str) -> Side:
    point, trial = asked.point or {}, asked.trial
    outcome = None if trial is None else trial.measurement
    lowered = None if outcome is None else outcome.lowered
    shown, unknown = [], [absent] if absent else []
    if table is not None:
        shown = _rows(table, lowered)
        unknown += [f"{column}: {reason}" for column, reason in table.absent.items()]
        if lowered is None or lowered.ran is None:
            reason = "it was not asked" if lowered is None else lowered.note
            unknown.append(f"what ran: {reason}")
    return Side(
        name=asked.name,
        what=str(point["label"] or point["summary"]),
        device=str(point["device"]),
        point=point,
        rows=shown,
        removed={} if table is None else table.removed,
        absent=unknown,
    )


def _rows(table: LayerTable, lowered: Lowered | None) -> list[dict[str, Any]]:
    """A table as the rows that a document would give."""
    tables = Tables.of({"one": table}, ["one"])
    point = {"layers": executed(table, tables.keys["one"], lowered, tables.strings)}
    strings = list(tables.strings.found)
    return rows({"layers": {"strings": strings, "tables": tables.columns}}, point)


def _files(
    a: str,
    b: str,
    *,
    data: str | None,
    shapes: Mapping[str, tuple[int, ...]] | None,
    store: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    """Two files: the second's values are held against the first's."""
    first, second = (open_model(name, progress)[1] for name in (a, b))
    subject = Subject(name=a, model=first, data=None, metric_name="", metric=None)
    if data is not None:
        subject = open_subject(str(first.path), data=data, metric=None, seed=0, progress=progress)
    _same_inputs(first, second)
    feeds: Sequence[Feed] = ()
    if subject.data is not None:
        part = subject.data.search.feeds
        feeds = [part[index] for index in range(min(INPUTS, len(part)))]
    else:
        feeds = random_feeds(first, INPUTS, shapes=dict(shapes or {}), seed=0)
    with Workspace.open(store) as workspace:
        workshop = workshop_for(subject, workspace, _OPSET, feeds[0])
        reader = LayerReader(workshop=workshop, feeds=feeds, folder=layer_folder(workspace))
        progress("reading the layers of both")
        sides = [_file_side(name, file, reader) for name, file in ((a, first), (b, second))]
    made = difference(*sides)
    if data is None:
        made["absent"].append(
            "signal over noise is of random inputs: give --data FILE for real ones"
        )
    return made


def _same_inputs(a: Model, b: Model) -> None:
    mine, theirs = ({spec.name: spec.dtype for spec in model.inputs} for model in (a, b))
    if mine != theirs:
        raise UsageError(
            f"the models take other inputs: {', '.join(mine)} against {', '.join(theirs)}",
            where=str(b.path),
            hint="compare two versions of one model",
        )


def _file_side(name: str, file: Model, reader: LayerReader) -> Side:
    graph = open_graph(file)
    table = reader.of(graph, None)
    cost = static_cost(graph, reader.shapes(graph, {}))
    exact = {
        "size": (float(file.size_bytes), "B"),
        "macs": (cost["macs"], ""),
        "params": (cost["params"], ""),
        "activation_memory": (cost["activation_bytes"], "B"),
    }
    absent = [f"{c}: {reason}" for c, reason in table.absent.items() if c != "actions"]
    what = f"{file.path.name}, opset {file.opset}"
    return Side(name=name, what=what, rows=_rows(table, None), exact=exact, absent=absent)
