"""`edgeopt gate`: a project's budgets against what its model is, needs and does.

Evidence comes in this order: from the file itself; measured now, interleaved with the base; a
receipt in the lock for the same model, device and protocol; none, which is never a pass.
"""

import datetime
import math
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgeopt.api.accuracy import Accuracy
from edgeopt.api.gate_base import Base, open_base
from edgeopt.api.gate_exact import exact
from edgeopt.api.gate_measured import Answer, Evidences, Question, measured
from edgeopt.api.subject import open_subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import DataSet
from edgeopt.core.model import Model
from edgeopt.core.samples import Interval
from edgeopt.errors import ConfigError, InconclusiveError, UsageError
from edgeopt.gate.budget import Budget, Gate
from edgeopt.gate.config import read_gate
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.lock import Receipt, read_lock, write_lock
from edgeopt.gate.verdict import UNDECIDED, exit_code, judge
from edgeopt.gate.verdicts import Verdicts
from edgeopt.graph.read import read_model

Progress = Callable[[str], None]
UNDECIDED_RULES = ("fail", "pass", "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What `edgeopt gate check` and `update` are asked.

    Args:
        config: edgeopt.toml.
        model: Instead of the one in the file; None is that one.
        base: A file or `git:REF`; empty compares with nothing.
        measure: Whether devices are used; without, receipts and files must do.
        time_s: For the measurements of each device.
        undecided: What an undecided budget does: `fail` exits 4, `pass` and `report` do not.
        today: Waivers end after their last day.
    """

    config: Path = Path("edgeopt.toml")
    model: Path | None = None
    base: str = ""
    measure: bool = True
    time_s: float = 300.0
    undecided: str = "fail"
    today: datetime.date

    def checked(self) -> "GateRequest":
        """The same request, after its words were found to be known.

        Raises:
            UsageError: Which one is not.
        """
        if self.undecided not in UNDECIDED_RULES:
            raise UsageError(
                f"--inconclusive {self.undecided!r} is not known",
                hint=f"known: {', '.join(UNDECIDED_RULES)}",
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A gate with everything opened."""

    request: GateRequest
    gate: Gate
    model: Model
    base: Base | None
    data: DataSet | None
    receipts: tuple[Receipt, ...]

    @property
    def same(self) -> bool:
        """Whether the model is the base's very file."""
        return self.base is not None and self.base.model.digest == self.model.digest


def check(request: GateRequest, progress: Progress) -> Verdicts:
    """All budgets, judged.

    Raises:
        ConfigError: Something in edgeopt.toml or in the lock is wrong, with file and line.
        ModelError, DataError, UsageError: What they name cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="edgeopt-") as folder:
        case = _opened(request.checked(), Path(folder), progress)
        found, _ = _everything(case, Path(folder), progress)
    return _judged(case, found)


def update(request: GateRequest, progress: Progress) -> tuple[Path, int]:
    """Measure every budget on a device and write the receipts.

    Returns:
        The lock, and how many receipts were written.

    Raises:
        EdgeOptError: As `check`; also where a device does not answer, and then nothing is written.
    """
    with tempfile.TemporaryDirectory(prefix="edgeopt-") as folder:
        case = _opened(request.checked(), Path(folder), progress, receipts=False)
        found, kinds = _everything(case, Path(folder), progress)
    receipts = {
        (budget.metric.name, budget.device): _receipt(case, budget, evidence, kinds[budget.device])
        for budget in case.gate.budgets
        if isinstance(evidence := found[budget.id], Evidence) and evidence.origin == "measured"
    }
    missing = [
        f"{budget.id}: {evidence.reason}"
        for budget in case.gate.budgets
        if budget.metric.kind == "measured" and isinstance(evidence := found[budget.id], Absent)
    ]
    if missing:
        raise InconclusiveError(
            f"nothing was written, since not all budgets could be measured: {'; '.join(missing)}",
            where=str(case.gate.lock),
        )
    write_lock(case.gate.lock, tuple(receipts.values()))
    return case.gate.lock, len(receipts)


def _opened(
    request: GateRequest, folder: Path, progress: Progress, *, receipts: bool = True
) -> _Case:
    gate = read_gate(request.config)
    path = gate.model if request.model is None else request.model
    model = read_model(path)
    needs_data = any(budget.metric.kind == "scored" for budget in gate.budgets)
    data = None
    if gate.data and (needs_data or request.measure):
        data = open_subject(
            path, data=gate.data, metric=gate.metric or None, seed=0, progress=progress
        ).data
    return _Case(
        request=request,
        gate=gate,
        model=model,
        base=open_base(request.base, path, folder) if request.base else None,
        data=data,
        receipts=read_lock(gate.lock) if receipts else (),
    )


def _everything(
    case: _Case, folder: Path, progress: Progress
) -> tuple[dict[str, Evidence | Absent], dict[str, str]]:
    """Evidence by budget, and the kind of each device that answered."""
    base = None if case.base is None else case.base.model
    found: dict[str, Evidence | Absent] = {}
    for budget in case.gate.budgets:
        if budget.metric.kind == "exact":
            with _at(case.gate, budget):
                found[budget.id] = exact(budget, case.model, base)
        elif budget.metric.kind == "scored":
            found[budget.id] = _scored(case, progress)
    kinds: dict[str, str] = {}
    on_devices = [b for b in case.gate.budgets if b.metric.kind == "measured"]
    if case.same:
        same = [budget for budget in on_devices if budget.limit is None]
        found |= {b.id: Evidence(value=1.0, origin="exact", same=True) for b in same}
        on_devices = [budget for budget in on_devices if budget not in same]
    for device in dict.fromkeys(budget.device for budget in on_devices):
        budgets = [budget for budget in on_devices if budget.device == device]
        answer = _asked(case, device, budgets, folder, progress)
        kinds[device] = answer.kind
        for budget in budgets:
            found[budget.id] = _compatible(case, budget, answer)
    return found, kinds


def _asked(
    case: _Case, device: str, budgets: Sequence[Budget], folder: Path, progress: Progress
) -> Answer:
    if not case.request.measure:
        absent = Absent(
            reason=f"{device} was not asked, and the lock has no receipt for this model"
        )
        return Answer(kind="", evidence={budget.id: absent for budget in budgets})
    question = Question(
        config=case.gate.path,
        device=device,
        model=case.model,
        base=None if case.base is None else case.base.model,
        budgets=budgets,
        data=case.data,
        protocol=case.gate.protocol,
        folder=folder,
        time_s=case.request.time_s,
    )

    def undecided(evidence: Evidences) -> bool:
        return any(_open(budget, evidence[budget.id], case) for budget in budgets)

    return measured(question, undecided, progress)


def _open(budget: Budget, evidence: Evidence | Absent, case: _Case) -> bool:
    """Whether more measurements may decide it: of a limit also where no base is there."""
    if isinstance(evidence, Absent):
        return False
    if evidence.interval is not None and math.isinf(evidence.interval.high):
        return True
    asked = replace(budget, change=None) if evidence.change is None else budget
    return judge(asked, evidence, today=case.request.today).status in UNDECIDED


def _compatible(case: _Case, budget: Budget, answer: Answer) -> Evidence | Absent:
    """What the device said, a receipt where it said nothing, and nothing across kinds."""
    receipt = next(
        (r for r in case.receipts if (r.metric, r.device) == (budget.metric.name, budget.device)),
        None,
    )
    evidence = answer.evidence[budget.id]
    if isinstance(evidence, Evidence):
        evidence = replace(evidence, same=case.same)
        other = budget.limit is not None and receipt is not None and receipt.kind != answer.kind
        if other and receipt is not None and not _worse(budget, evidence, case):
            return Absent(
                reason=f"{budget.device} is {answer.kind} now, and the lock was written on "
                f"{receipt.kind}: run `edgeopt gate update` if that is meant",
                kind="incompatible",
            )
        return evidence
    if receipt is None or answer.kind:  # what the device itself says is believed
        return evidence
    return _from(receipt, case) or evidence


def _worse(budget: Budget, evidence: Evidence, case: _Case) -> bool:
    """Whether the change alone is missed: it is measured interleaved, so it holds on any board."""
    alone = replace(budget, limit=None)
    return judge(alone, evidence, today=case.request.today).status == "fail"


@contextmanager
def _at(gate: Gate, budget: Budget) -> Generator[None]:
    """What is wrong with a name in a budget is said with the budget's line."""
    try:
        yield
    except ConfigError as error:
        where = f"{gate.path}:{budget.line}"
        raise ConfigError(error.what, where=where, hint=error.hint) from error


def _from(receipt: Receipt, case: _Case) -> Evidence | None:
    """The evidence of a receipt, where it is about this model."""
    if receipt.model != case.model.digest or receipt.protocol != case.gate.protocol:
        return None
    based = case.base is not None and receipt.base == case.base.model.digest
    return Evidence(
        value=receipt.value,
        origin="receipt",
        interval=receipt.interval,
        base=receipt.base_value if based else None,
        change=receipt.ratio if based else None,
        same=case.same,
        note=f"from the lock, measured on {receipt.recorded} on {receipt.kind}",
    )


def _scored(case: _Case, progress: Progress) -> Evidence | Absent:
    """Accuracy on the held-out samples, beside the base's on the same ones."""
    if case.data is None:
        return Absent(reason="accuracy needs labelled data: set data in the [gate] table")
    given = case.model if case.base is None else case.base.model
    subject = open_subject(
        given.path,
        data=case.gate.data,
        metric=case.gate.metric or None,
        seed=0,
        progress=progress,
    )
    accuracy = Accuracy(subject, RuntimeSettings(threads=1))
    part = case.data.test
    base = accuracy.baseline(part)
    if case.base is None:
        return Evidence(value=base.value, origin="scored", note=f"{len(part)} samples")
    value = accuracy.value(accuracy.evidence(case.model.path, part, case.model.digest), part)
    interval = value.interval or Interval(value=value.value, low=value.value, high=value.value)
    return Evidence(
        value=value.value,
        origin="scored",
        base=base.value,
        change=Interval(
            value=value.value - base.value,
            low=interval.low - base.value,
            high=interval.high - base.value,
        ),
        note=value.note,
    )


def _receipt(case: _Case, budget: Budget, found: Evidence, kind: str) -> Receipt:
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


def _judged(case: _Case, found: Mapping[str, Evidence | Absent]) -> Verdicts:
    findings = tuple(
        judge(budget, found[budget.id], case.gate.waiver_of(budget), today=case.request.today)
        for budget in case.gate.budgets
    )
    return Verdicts(
        path=_shown(case.gate.path),
        model=str(_shown(case.model.path)),
        digest=case.model.digest,
        base="" if case.base is None else case.base.words,
        findings=findings,
        code=exit_code(findings, undecided=case.request.undecided),
    )


def _shown(path: Path) -> Path:
    """Below the working folder where it lies there, as annotations need it."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path
