"""`edgeopt inspect`: what is inside a model, and what the device's profile offers for it."""

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgeopt.api import costs
from edgeopt.api.device import Device, open_device
from edgeopt.api.emulated import float16_warnings, warnings_of
from edgeopt.api.prepare import SENSITIVITY
from edgeopt.api.reopen import workshop_for
from edgeopt.api.sensitivity import ranked, table
from edgeopt.api.subject import Progress, Subject, open_model, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.model import TensorSpec
from edgeopt.errors import EdgeOptError, UsageError
from edgeopt.graph.cost import per_layer, static_cost
from edgeopt.graph.lowered import is_asked, lowered
from edgeopt.graph.normalize import notes
from edgeopt.graph.runtime import profile_nodes, synthetic_feed
from edgeopt.graph.write import stored_proto, write_model
from edgeopt.report.integers import by_reason
from edgeopt.transforms.base import Offer
from edgeopt.transforms.groups import QUANTIZERS
from edgeopt.transforms.guesses import INTEGERS
from edgeopt.transforms.replay import Workshop
from edgeopt.transforms.space import GraphSpace
from edgeopt.units import format_bytes

_SHOWN = 12


def inspect_model(
    model: str,
    *,
    device: str,
    data: str | None,
    store: Path | None,
    progress: Progress,
    sensitivity: bool = False,
) -> dict[str, Any]:
    """Inputs, outputs, operators, cost, and the choices of the search.

    Args:
        model: A file or a zoo name.
        device: Whose profile decides what is offered.
        data: Labelled data; a zoo model brings its own for `sensitivity`.
        store: The workspace.
        progress: Told one line an event.
        sensitivity: Also what each choice does alone: damage on calibration inputs, and the gain
            that is predicted before anything is measured. Estimates, both. And what this machine's
            runtime leaves in float when everything is asked for in integers, with the reason.

    Raises:
        UsageError: Sensitivity was asked for, and there is no data.
        ModelError, DataError, DeviceError: What was given cannot be used.
    """
    subject = _subject(model, data, progress, sensitivity=sensitivity)
    with (
        Workspace.open(store) as workspace,
        open_device(device, workspace.folder / "agent") as door,
    ):
        workshop = workshop_for(subject, workspace, door.profile.opset_ceiling)
        offer = Offer(profile=door.profile, data=subject.data is not None)
        space = GraphSpace(workshop, offer)
        graph = workshop.normalized
        operators = Counter(node.op_type for node in graph.graph.all_nodes())
        shapes = space.shapes_of(graph)
        layers = sorted(per_layer(graph, shapes), key=lambda layer: -layer.macs)[:_SHOWN]
        told: dict[str, Any] = {
            "schema_version": 1,
            "model": str(subject.model.path),
            "digest": subject.model.digest,
            "opset": subject.model.opset,
            "size_bytes": subject.model.size_bytes,
            "inputs": [_spec(spec) for spec in subject.model.inputs],
            "outputs": [_spec(spec) for spec in subject.model.outputs],
            "operators": dict(operators.most_common()),
            "cost": dict(static_cost(graph, shapes)),
            "heaviest_layers": [
                {"name": layer.name, "op": layer.op, "macs": layer.macs} for layer in layers
            ],
            "notes": list(notes(graph)),
            "profile": door.profile.name,
            "choices": [
                {"name": choice.name, "family": choice.family, "alternatives": list(choice.labels)}
                for choice in space.choices
            ],
        }
        told["warnings"] = _warnings(workshop, door, subject)
        told["integers"] = _integers(workshop, subject)
        told["cost_tables"] = _estimates(workshop, door, subject, workspace.folder)
        if sensitivity:
            progress("running each choice alone on calibration inputs")
            told["sensitivity"] = ranked(space, folder=workspace.folder / SENSITIVITY)
            told["in_integers"] = None if told["integers"] else _everything(space, subject)
    return {**told, "text": _text(told, door, subject)}


def _subject(
    model: str, data: str | None, progress: Progress, *, sensitivity: bool = False
) -> Subject:
    if sensitivity:
        opened = open_subject(model, data=data, metric=None, seed=0, progress=progress)
        if opened.data is None:
            raise UsageError(
                "sensitivity needs calibration inputs, and there is no data",
                where=model,
                hint="give --data FILE.npz, a folder, or python:package.function",
            )
        return opened
    if data is not None:
        return open_subject(model, data=data, metric=None, seed=0, progress=progress)
    name, opened, _ = open_model(model, progress)
    return Subject(name=name, model=opened, data=None, metric_name="", metric=None)


def _warnings(workshop: Workshop, device: Device, subject: Subject) -> list[str]:
    """What the device would make of the given model, where this machine hides it."""
    if subject.data is None:
        return []
    runtime = RuntimeSettings(provider=device.provider.provider)
    found = warnings_of(workshop, workshop.build(workshop.recipe()), device.profile, runtime)
    half = float16_warnings(workshop, device.profile) if device.profile.float16 else []
    return [*found, *half]


def _estimates(
    workshop: Workshop, device: Device, subject: Subject, folder: Path
) -> list[dict[str, Any]]:
    """What the operators that were profiled on the device say of the given model."""
    if not costs.tables_of(folder, device):
        return []
    graph = workshop.build(workshop.recipe()).graph
    data = subject.data
    feed = synthetic_feed(graph) if data is None else data.calibration.feeds[0]
    try:
        return costs.estimates(folder, device, stored_proto(graph), feed)
    except EdgeOptError as error:
        return [{"absent": f"no estimate from operator costs: {error.what}"}]


def _integers(workshop: Workshop, subject: Subject) -> dict[str, Any] | None:
    """What the runtime of this machine makes of a model that came with integers; else None."""
    graph = workshop.build(workshop.recipe()).graph
    nodes = list(graph.graph.all_nodes())
    if not any(is_asked(node) or node.op_type in QUANTIZERS for node in nodes):
        return None
    return _executed(subject.model.path, graph, subject)


def _everything(space: GraphSpace, subject: Subject) -> dict[str, Any] | None:
    """The same of a float model with everything in integers; None where none are offered."""
    guesses = (found for name, found in space.guesses() if name == INTEGERS)
    for candidate in guesses:
        graph = space.graph(candidate.recipe)
        with tempfile.TemporaryDirectory() as folder:
            path = write_model(graph, Path(folder) / "integers.onnx").path
            return _executed(path, graph, subject)
    return None


def _executed(path: Path, graph: ir.Model, subject: Subject) -> dict[str, Any]:
    data = subject.data
    feed = synthetic_feed(graph) if data is None else data.calibration.feeds[0]
    try:
        profile = profile_nodes(path, RuntimeSettings(), feed, runs=1)
    except EdgeOptError as error:
        return {"absent": f"what runs in integers is not known: {error.what}"}
    found = lowered(profile, graph)
    return {
        "asked": found.asked,
        "ran": found.ran,
        "islands": found.islands,
        "stayed": list(found.stayed),
        "traps": list(found.traps),
        "between": list(found.between),
    }


def _integer_lines(told: Mapping[str, Any] | None, what: str) -> list[str]:
    if told is None:
        return []
    if "absent" in told:
        return ["", str(told["absent"])]
    head = f"{what}: {told['asked']} operators asked, {told['ran']} ran"
    head += f", {told['islands']} float islands" if told["islands"] else ""
    found = [*told["traps"], *by_reason(told["stayed"]), *told["between"]]
    left = len(found) - _SHOWN
    more = [f"  and {left} more (--json has all)"] if left > 0 else []
    return ["", head, *(f"  {line}" for line in found[:_SHOWN]), *more]


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": spec.shape and list(spec.shape)}


def _assumed(told: Mapping[str, Any], subject: Subject) -> str:
    """That sizes are assumed, where the model leaves them free and no sample says more."""
    shapes = [spec["shape"] for spec in told["inputs"]]
    free = any(shape is None or any(not isinstance(n, int) for n in shape) for shape in shapes)
    return " (free sizes count as 1: --data decides them)" if free and subject.data is None else ""


def _text(told: Mapping[str, Any], device: Device, subject: Subject) -> str:
    cost, operators = told["cost"], told["operators"]
    lines = [
        f"{subject.model.path.name}  opset {told['opset']}  {format_bytes(told['size_bytes'])}",
        *(f"  in   {s['name']}  {s['dtype']}  {s['shape']}" for s in told["inputs"]),
        *(f"  out  {s['name']}  {s['dtype']}  {s['shape']}" for s in told["outputs"]),
        "",
        f"{sum(operators.values())} operators after normalisation: "
        + ", ".join(f"{name} {count}" for name, count in list(operators.items())[:_SHOWN]),
        f"{cost['macs'] / 1e6:.1f} M multiply-adds{_assumed(told, subject)}, "
        f"{cost['params'] / 1e6:.3f} M parameters",
        *(f"  note: {note}" for note in told["notes"]),
        "",
        f"Profile {device.profile.name} offers:",
    ]
    families: dict[str, list[str]] = {}
    for choice in told["choices"]:
        families.setdefault(choice["family"], []).append(choice["name"])
    lines += [
        f"  {family:<9} {len(names):>3} choices, such as {', '.join(names[:3])}"
        for family, names in families.items()
    ]
    if subject.data is None:
        lines.append("  (quantize, prune and repair need data: give --data)")
    lines += _integer_lines(told["integers"], "In integers here")
    lines += ["", *told["warnings"]] if told["warnings"] else []
    for entry in told["cost_tables"]:
        lines += ["", *costs.lines_of(entry, device.name)]
    if "sensitivity" in told:
        lines += ["", *table(told["sensitivity"])]
        lines += _integer_lines(told["in_integers"], "With everything asked for in integers, here")
    return "\n".join(lines)
