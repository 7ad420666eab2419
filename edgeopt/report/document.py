"""The one document that every format of a report renders, and that `run --json` prints.

Pure: trials and what is known about the run go in, a JSON object comes out. `schema.json` beside
this file describes it.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgeopt.core.front import Front, cost_matrix, front_of, strongest
from edgeopt.core.indicators import knee
from edgeopt.core.layers import LayerTable
from edgeopt.core.objective import Objective
from edgeopt.core.study import Study
from edgeopt.core.trial import Trial
from edgeopt.report import across, findings, layers
from edgeopt.report.costs import ledger
from edgeopt.report.devices import about, environments
from edgeopt.report.integers import integers
from edgeopt.report.picks import Pick, picks, verdict
from edgeopt.report.points import Point, Setting, identity, point
from edgeopt.report.progress import progress
from edgeopt.report.pruned import pruned
from edgeopt.report.quality import quality
from edgeopt.report.words import quantity

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """What a report says that the trials do not know.

    Args:
        models: Digest of a built file to its path.
        objectives: Of the front, with the bounds that follow from the baseline; empty takes the
            study's.
        peer_labels: Labels of the trials that a user would try without us.
        allowed_drop: As the user gave it (`1pt`); empty without a bound.
        decidable_drop: Smallest accuracy drop that the search part can decide (0..1); None where
            it was not determined.
        samples: Part of the data to its number of samples.
        flips: Trial number to samples (lost, won) against the baseline, on the search part.
        command: The line that ran the study.
        versions: Package to version.
        references: What else the numbers rest on: name to digest.
        created: ISO 8601 time.
        report: Path of the page; empty where none is written.
        interrupted: Whether the search was stopped before its budget was spent.
        checked: What was checked, one sentence each.
        unknown: What else is not known, one sentence each.
        profiles: Device to the kind of device it is.
        objectives_of: Device to its objectives, where its bounds are its own.
        decidable_drop_of: Device to the smallest decidable drop there, where it is its own.
        layer_tables: Digest of a built file to its layers.
        layers_absent: Why a table that should be there is not.
        rivals: Other searches of the same question, by name.
        unpruned: Why the search was offered nothing to prune; empty where it was.
        store: Where the study is kept, where a command has to name it; else empty.
    """

    models: Mapping[str, str] = field(default_factory=dict[str, str])
    objectives: tuple[Objective, ...] = ()
    peer_labels: tuple[str, ...] = ()
    allowed_drop: str = ""
    decidable_drop: float | None = None
    samples: Mapping[str, int] = field(default_factory=dict[str, int])
    flips: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    references: Mapping[str, str] = field(default_factory=dict[str, str])
    created: str = ""
    report: str = ""
    interrupted: bool = False
    checked: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    profiles: Mapping[str, str] = field(default_factory=dict[str, str])
    objectives_of: Mapping[str, tuple[Objective, ...]] = field(
        default_factory=dict[str, tuple[Objective, ...]]
    )
    decidable_drop_of: Mapping[str, float] = field(default_factory=dict[str, float])
    layer_tables: Mapping[str, LayerTable] = field(default_factory=dict[str, LayerTable])
    layers_absent: str = layers.UNBUILT
    store: str = ""
    unpruned: str = ""
    rivals: Mapping[str, tuple[Trial, ...]] = field(default_factory=dict[str, tuple[Trial, ...]])

    def on(self, device: str) -> "ReportContext":
        """The context with what holds on one device."""
        return replace(
            self,
            objectives=self.objectives_of.get(device, self.objectives),
            decidable_drop=self.decidable_drop_of.get(device, self.decidable_drop),
        )


def document(study: Study, trials: Sequence[Trial], context: ReportContext) -> dict[str, Any]:
    """Everything a report says, as a JSON object with a `schema_version`."""
    devices = {name: _device(name, study, trials, context.on(name)) for name in study.devices}
    shown = _add_layers(devices, trials, context)
    made: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "created": context.created,
        "interrupted": context.interrupted,
        "study": _study(study, context),
        "devices": {name: found["about"] for name, found in devices.items()},
        "across": across.section(
            trials,
            study.devices,
            {name: context.on(name).objectives or study.objectives for name in study.devices},
            {name: found["taken"] for name, found in devices.items()},
            {name: found["points"] for name, found in devices.items()},
            [name for name, found in devices.items() if found["about"]["emulated"]],
        ),
        "baseline": {name: found["baseline"] for name, found in devices.items()},
        "shipped_today": {name: found["shipped"] for name, found in devices.items()},
        "fronts": {name: found["front"] for name, found in devices.items()},
        "picks": {name: found["picks"] for name, found in devices.items()},
        "verdict": {name: found["verdict"] for name, found in devices.items()},
        "candidates": {name: found["points"] for name, found in devices.items()},
        "in_vain": {name: found["in_vain"] for name, found in devices.items()},
        "unknown": {name: found["unknown"] for name, found in devices.items()},
        "checked": {name: found["checked"] for name, found in devices.items()},
        "layers": shown,
        "bounds": {name: found["bounds"] for name, found in devices.items()},
        "quality": {name: found["quality"] for name, found in devices.items()},
        "progress": {name: found["progress"] for name, found in devices.items()},
        "failures": findings.failures(trials),
        "ledger": ledger(trials, study.devices),
        "report": context.report,
        "reproduce": _reproduce(study, trials, context),
    }
    told = {n: pruned(made, n, trials, nothing=context.unpruned) for n in study.devices}
    placed = {n: integers(made, n) for n in study.devices}
    return {**made, "pruned": told, "integers": placed}


def tabled(study: Study, trials: Sequence[Trial], context: ReportContext) -> list[Trial]:
    """The trials whose layers a report shows: on each device the front, the given model and peers.

    What would be taken or shipped is always one of them.
    """
    found: list[Trial] = []
    for name in study.devices:
        known = context.on(name)
        mine = strongest(trial for trial in trials if trial.device == name)
        numbers = {
            t.number for t in front_of(mine, known.objectives or study.objectives, name).members
        }
        base = _baseline(mine)
        for trial in mine:
            given = base is not None and trial.candidate.key == base.candidate.key
            usual = trial.label in context.peer_labels
            if trial.measurement is not None and (trial.number in numbers or given or usual):
                found.append(trial)
    return found


def _add_layers(
    devices: Mapping[str, dict[str, Any]], trials: Sequence[Trial], context: ReportContext
) -> dict[str, Any]:
    """Give each point its layers, or why it has none; the tables that they point into."""
    by_id = {identity(trial): trial for trial in trials}
    shown = [p for found in devices.values() for p in found["points"] if _is_tabled(p)]
    tables = layers.Tables.of(context.layer_tables, [p["model_digest"] for p in shown])
    for each in (p for found in devices.values() for p in found["points"]):
        table = context.layer_tables.get(each["model_digest"]) if _is_tabled(each) else None
        each["layers"] = None
        each["layers_absent"] = context.layers_absent if _is_tabled(each) else layers.UNTABLED
        if table is not None:
            outcome = by_id[each["id"]].measurement
            lowered = None if outcome is None else outcome.lowered
            key = tables.keys[each["model_digest"]]
            each["layers"] = layers.executed(table, key, lowered, tables.strings)
            each["layers_absent"] = ""
    return {"strings": list(tables.strings.found), "tables": tables.columns}


def _is_tabled(point: Point) -> bool:
    return point["standing"] == "front" or (
        point["role"] in {"baseline", "peer"} and bool(point["metrics"])
    )


def quality_metric(objectives: Sequence[Objective]) -> str:
    """The metric to be kept high (`accuracy`, `agreement`); empty where there is none."""
    return next((o.metric for o in objectives if o.direction == "max"), "")


def _device(
    name: str, study: Study, trials: Sequence[Trial], context: ReportContext
) -> dict[str, Any]:
    objectives = context.objectives or study.objectives
    mine = strongest(trial for trial in trials if trial.device == name)
    front = front_of(mine, objectives, name)
    setting = Setting(
        baseline=_baseline(mine),
        objectives=objectives,
        quality=quality_metric(objectives),
        peer_labels=context.peer_labels,
        models=context.models,
        flips=context.flips,
    )
    points = _points(mine, front, setting)
    by_id = {each["id"]: each for each in points}
    members = [by_id[identity(trial)] for trial in front.members]
    base = by_id[identity(setting.baseline)] if setting.baseline else None
    shipped = _shipped(points, base, setting)
    bend = knee(front)
    evidence = findings.Evidence(
        members=members,
        points=points,
        baseline=base,
        shipped=shipped,
        quality=setting.quality,
        front=front,
    )
    said = _verdict(points, base, shipped, study, setting, context)
    kind = context.profiles.get(name, "")
    note = None if setting.baseline is None else setting.baseline.value(setting.quality)
    notes = () if note is None else (note.note,)
    return {
        "about": about(name, trials, setting.baseline, kind, setting.quality),
        "taken": next((trial for trial in mine if identity(trial) == said["take"]), None),
        "baseline": base,
        "shipped": shipped,
        "front": members,
        "points": points,
        "picks": _picks(members, base, bend, setting.quality),
        "verdict": said,
        "bounds": {o.metric: o.bound for o in setting.objectives if o.bound is not None},
        "quality": quality(mine, points),
        "progress": progress(
            [trial for trial in trials if trial.device == name],
            objectives,
            {k: [t for t in each if t.device == name] for k, each in context.rivals.items()},
            name=f"{study.strategy} (this run)",
        ),
        "in_vain": findings.in_vain(evidence, trials, name),
        "unknown": [*findings.unknown(evidence, study, context), *context.unknown],
        "checked": [*findings.checked(evidence, context.samples, notes), *context.checked],
    }


def _points(trials: Sequence[Trial], front: Front, setting: Setting) -> list[Point]:
    """All trials of a device: the front in its order, then the others by number."""
    ranks = {trial.number: index for index, trial in enumerate(front.members)}
    ordered = sorted(trials, key=lambda t: (ranks.get(t.number, len(ranks)), t.number))
    costs = {tuple(row) for row in front.costs().tolist()}
    found: list[Point] = []
    for trial in ordered:
        standing = _standing(trial, ranks, costs, front.objectives)
        ties = [identity(other) for other in front.ties(trial)] if trial.number in ranks else []
        found.append({**point(trial, standing, setting), "ties": ties})
    return found


def _standing(
    trial: Trial,
    ranks: Mapping[int, int],
    costs: set[tuple[float, ...]],
    objectives: Sequence[Objective],
) -> str:
    if trial.number in ranks:
        return "front"
    if trial.measurement is None:
        return "failed" if not hasattr(trial.outcome, "verdict") else "invalid"
    if not all(objective.feasible(trial) for objective in objectives):
        return "infeasible"
    mine = tuple(cost_matrix([trial], objectives)[0].tolist())
    return "equal" if mine in costs else "dominated"


def _baseline(trials: Sequence[Trial]) -> Trial | None:
    """The given model under default settings; the first such candidate of the study."""
    given = [t for t in trials if t.measurement is not None and t.candidate.is_baseline]
    default = [t for t in given if t.candidate.is_default]
    return next(iter([*default, *given]), None)


def _shipped(points: Sequence[Point], base: Point | None, setting: Setting) -> Point | None:
    """What a user would ship without us: the fastest of the usual ways within the allowed drop.

    One that is not shown to be faster than the given model is no reason to ship it.
    """
    bounds = [o for o in setting.objectives if o.metric == setting.quality and o.bound is not None]
    floor = bounds[0].bound if bounds else None
    found = base
    for each in points:
        if each["role"] != "peer" or each["ratio"] is None or "latency" not in each["metrics"]:
            continue
        kept = each["metrics"].get(setting.quality, {}).get("value")
        within = floor is None or (kept is not None and kept >= floor)
        if not within or each["ratio"]["relation"] != "faster":
            continue
        best = None if found is None else found["metrics"]["latency"]["value"]
        if best is None or each["metrics"]["latency"]["value"] < best:
            found = each
    return found


def _picks(
    members: Sequence[Point], base: Point | None, bend: Trial | None, quality: str
) -> dict[str, Pick]:
    return picks(members, base, None if bend is None else identity(bend), quality)


def _verdict(
    points: Sequence[Point],
    base: Point | None,
    shipped: Point | None,
    study: Study,
    setting: Setting,
    context: ReportContext,
) -> dict[str, Any]:
    found = verdict(
        points, base, shipped, quality=setting.quality, decidable=context.decidable_drop
    )
    take = found["take"]
    if take is None or (base is not None and take == base["id"]):
        step = "the same command with a larger --budget goes on from here"
    else:
        where = f" --store {shlex.quote(context.store)}" if context.store else ""
        step = f"edgeopt export {study.id} {take} -o {take}{where}"
    nearest = [] if any(p["standing"] == "front" for p in points) else findings.nearest(points)
    return {**found, "next": step, "nearest": nearest}


def _study(study: Study, context: ReportContext) -> dict[str, Any]:
    return {
        "id": study.id,
        "model": study.model_name,
        "baseline": study.baseline,
        "data": study.data,
        "metric": study.metric,
        "objectives": [_objective(o) for o in context.objectives or study.objectives],
        "devices": list(study.devices),
        "strategy": study.strategy,
        "seed": study.seed,
        "options": dict(study.options),
        "allowed_drop": context.allowed_drop,
        "samples": dict(context.samples),
    }


_UNITS = {
    **dict.fromkeys(("latency", "load", "first_run", "build", "paced_latency"), "s"),
    **dict.fromkeys(("size", "peak_memory", "engine_size"), "B"),
    **dict.fromkeys(("energy", "energy_net", "paced_energy"), "J"),
    "power": "W",
}


def _objective(objective: Objective) -> dict[str, Any]:
    unit = _UNITS.get(objective.metric, "1")
    text = f"{objective.metric} {objective.direction}"
    if objective.bound is not None:
        side = "at most" if objective.direction == "min" else "at least"
        text += f", {side} {quantity(objective.bound, unit)}"
    return {
        "metric": objective.metric,
        "statistic": objective.statistic,
        "direction": objective.direction,
        "bound": objective.bound,
        "text": text,
    }


def _reproduce(study: Study, trials: Sequence[Trial], context: ReportContext) -> dict[str, Any]:
    return {
        "command": context.command,
        "seed": study.seed,
        "strategy": study.strategy,
        "protocols": sorted({trial.protocol for trial in trials}),
        "digests": {"model": study.baseline, "data": study.data, **context.references},
        "versions": dict(context.versions),
        "environment": environments(trials),
    }
