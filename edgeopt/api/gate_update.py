"""`edgeopt gate update`: measure, write the receipts, and take limits from a candidate."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeopt.api.gate_candidate import Chosen, chosen
from edgeopt.api.gate_case import Case, GateRequest, Progress, open_case
from edgeopt.api.gate_evidence import gathered
from edgeopt.core.samples import Interval
from edgeopt.errors import DeviceError, InconclusiveError, NothingToDoError
from edgeopt.gate.budget import Budget, Gate
from edgeopt.gate.config import quantity
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.limits import limit_of, limit_text
from edgeopt.gate.lock import Receipt, write_lock
from edgeopt.gate.toml import edit_toml
from edgeopt.graph.read import read_model

Found = Mapping[str, Evidence | Absent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What `edgeopt gate update` is asked beside the request.

    Args:
        candidate: Whose values become the limits: a file, an exported folder, a trial's id; empty
            leaves the limits alone.
        study: Of a trial; None is the latest.
        store: Where studies lie; None is the usual place.
    """

    candidate: str = ""
    study: str | None = None
    store: Path | None = None


def update(request: GateRequest, progress: Progress, asked: Update | None = None) -> list[str]:
    """Measure every budget that needs a device, write the receipts, and a candidate's limits.

    Returns:
        What was written, a line each.

    Raises:
        NothingToDoError: No budget needs a receipt, and no limit is asked for.
        EdgeOptError: As `check`; also where a device does not answer, and then nothing is written.
    """
    asked = asked or Update()
    with tempfile.TemporaryDirectory(prefix="edgeopt-") as place:
        folder, taken = Path(place), None
        if asked.candidate:
            taken = chosen(asked.candidate, folder, study=asked.study, store=asked.store)
            request = replace(request, model=taken.model)
        case = open_case(request.checked(), folder, progress, receipts=False)
        if not case.gate.budgets:
            raise NothingToDoError("there are no budgets", where=str(case.gate.path))
        if taken is None and all(b.metric.kind != "measured" for b in case.gate.budgets):
            raise NothingToDoError(
                f"no budget is measured on a device, so {case.gate.lock.name} has nothing to hold",
                where=str(case.gate.path),
                hint="`edgeopt gate check` is all that exact budgets need",
            )
        found, kinds = gathered(case, folder, progress)
        _all_known(case, found, limits=taken is not None)
        told = _receipts(case, found, kinds)
        return told if taken is None else [*told, *_limits(case, found), *_placed(case, taken)]


def _all_known(case: Case, found: Found, *, limits: bool) -> None:
    """Raises where a receipt or a limit would have nothing to stand on."""
    wanted = [
        budget
        for budget in case.gate.budgets
        if budget.metric.kind == "measured" or (limits and budget.limit is not None)
    ]
    lacking = {b.id: told for b in wanted if (told := _lacking(found[b.id], limits)) is not None}
    if not lacking:
        return
    reasons = "; ".join(f"{name}: {absent.reason}" for name, absent in lacking.items())
    away = {absent.kind for absent in lacking.values()} == {"device"}
    raise (DeviceError if away else InconclusiveError)(
        f"nothing was written, since not all budgets have evidence: {reasons}",
        where=str(case.gate.path),
    )


def _lacking(evidence: Evidence | Absent, limits: bool) -> Absent | None:
    if isinstance(evidence, Absent):
        return evidence
    if limits and evidence.interval is not None and math.isinf(evidence.interval.high):
        return Absent(reason="one measurement says nothing of its spread: give more --time")
    return None


def _receipts(case: Case, found: Found, kinds: Mapping[str, str]) -> list[str]:
    receipts = {
        (budget.metric.name, budget.device): _receipt(case, budget, evidence, kinds[budget.device])
        for budget in case.gate.budgets
        if isinstance(evidence := found[budget.id], Evidence) and evidence.origin == "measured"
    }
    if not receipts:
        measured = any(budget.metric.kind == "measured" for budget in case.gate.budgets)
        told = f"{case.gate.lock} is as it was: the very file of the base needs no measurement"
        return [told] if measured else []
    write_lock(case.gate.lock, tuple(receipts.values()))
    plural = "" if len(receipts) == 1 else "s"
    return [f"{case.gate.lock}: {len(receipts)} receipt{plural} written; commit it"]


def _receipt(case: Case, budget: Budget, found: Evidence, kind: str) -> Receipt:
    interval = found.interval or Interval(value=found.value, low=found.value, high=found.value)
    base = None if found.base is None or found.change is None else case.base
    return Receipt(
        metric=budget.metric.name,
        device=budget.device,
        kind=kind,
        protocol=case.gate.protocol,
        model=case.model.digest,
        value=found.value,
        low=interval.low,
        high=interval.high,
        recorded=case.request.today.isoformat(),
        base="" if base is None else base.model.digest,
        base_value=found.base or 0.0,
        change=0.0 if found.change is None else found.change.value,
        change_low=0.0 if found.change is None else found.change.low,
        change_high=0.0 if found.change is None else found.change.high,
    )


def _limits(case: Case, found: Found) -> list[str]:
    """Every limit as the candidate would have it, written into the file, and said."""
    lines: list[str] = []
    texts: dict[int, str | int] = {}
    for index, budget in enumerate(case.gate.budgets):
        evidence = found[budget.id]
        value = limit_of(budget, evidence) if isinstance(evidence, Evidence) else None
        if value is None:
            continue
        higher = budget.metric.higher
        texts[index] = limit_text(value, budget.metric.unit, higher=higher)
        lines.append(_said(case.gate, budget, texts[index]))

    def change(document: Any) -> None:
        for index, text in texts.items():
            row = document["gate"]["budget"][index]
            row["min" if case.gate.budgets[index].metric.higher else "max"] = text

    edit_toml(case.gate.path, change)
    return lines


def _said(gate: Gate, budget: Budget, text: str | int) -> str:
    old, new = budget.limit or 0.0, quantity(text, budget.metric.unit)
    looser = new < old if budget.metric.higher else new > old
    word = "as it was" if new == old else "LOOSER than before" if looser else "tighter than before"
    bound = "min" if budget.metric.higher else "max"
    return f"{gate.path}:{budget.line}: {budget.id}: {bound} = {text}, {word}"


def _placed(case: Case, taken: Chosen) -> Sequence[str]:
    """What is left to do where the project's file is still another model."""
    notes = [taken.note] if taken.note else []
    place = case.gate.model
    if place.is_file() and read_model(place).digest == case.model.digest:
        return notes
    how = taken.fetch or f"copy {taken.model}"
    return [*notes, f"{place} is still another model; put the candidate in its place: {how} there"]
