"""Evidence for every budget of a gate, in this order: the file itself; the device, now; the lock.

A device that was asked and does not answer is device trouble, also where a receipt is there: a
board that nobody plugged in again must not stay green for as long as the model stays the same.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgeopt.api.gate_case import Case, Progress, said_at
from edgeopt.api.gate_exact import exact
from edgeopt.api.gate_question import Answer, Evidences, Question
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.samples import Interval
from edgeopt.gate.budget import Budget
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.lock import Receipt
from edgeopt.gate.verdict import UNDECIDED, judge


def gathered(
    case: Case, folder: Path, progress: Progress
) -> tuple[dict[str, Evidence | Absent], dict[str, str]]:
    """Evidence by budget, and the kind of each device that answered."""
    base = None if case.base is None else case.base.model
    found: dict[str, Evidence | Absent] = {}
    for budget in case.gate.budgets:
        if budget.metric.kind == "exact":
            with said_at(f"{case.gate.path}:{budget.line}"):
                found[budget.id] = exact(budget, case.model, base, case.gate.path.parent)
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
    case: Case, device: str, budgets: Sequence[Budget], folder: Path, progress: Progress
) -> Answer:
    if not case.request.measure:
        absent = {budget.id: Absent(reason=_without(case, budget)) for budget in budgets}
        return Answer(kind="", evidence=absent)
    # Only what is measured pays for what devices need: exact budgets are done in a second or two.
    from edgeopt.api.gate_measured import measured

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


def _open(budget: Budget, evidence: Evidence | Absent, case: Case) -> bool:
    """Whether more measurements may decide it: of a limit also where no base is there."""
    if isinstance(evidence, Absent):
        return False
    if evidence.interval is not None and math.isinf(evidence.interval.high):
        return True
    asked = replace(budget, change=None) if evidence.change is None else budget
    return judge(asked, evidence, today=case.request.today).status in UNDECIDED


def _compatible(case: Case, budget: Budget, answer: Answer) -> Evidence | Absent:
    """What the device said, a receipt where it was not asked, and nothing across kinds."""
    receipt = _receipt_of(case, budget)
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
    told = _from(receipt, case)
    if told is None or not case.request.measure:
        return told or evidence
    return replace(evidence, instead=told)


def _receipt_of(case: Case, budget: Budget) -> Receipt | None:
    """The lock's receipt on a budget's metric and device, rather one on this very model."""
    key = (budget.metric.name, budget.device)
    held = [each for each in case.receipts if (each.metric, each.device) == key]
    return next((each for each in held if _from(each, case)), held[0] if held else None)


def _without(case: Case, budget: Budget) -> str:
    """Why the lock does not stand in for a device that was not asked."""
    receipt, lock = _receipt_of(case, budget), case.gate.lock.name
    again = f"run `edgeopt gate update` where {budget.device} is, and commit {lock}"
    if not case.receipts and not case.gate.lock.exists():
        why = f"there is no {lock}"
    elif receipt is None:
        why = f"{lock} has no receipt for it"
    elif receipt.protocol != case.gate.protocol:
        why = f"{lock} was measured under protocol {receipt.protocol}, not {case.gate.protocol}"
    else:
        why = f"{lock} is about another model, measured on {receipt.recorded}"
    return f"{budget.device} was not asked, and {why}: {again}"


def _worse(budget: Budget, evidence: Evidence, case: Case) -> bool:
    """Whether the change alone is missed: it is measured interleaved, so it holds on any board."""
    alone = replace(budget, limit=None)
    return judge(alone, evidence, today=case.request.today).status == "fail"


def _from(receipt: Receipt, case: Case) -> Evidence | None:
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


def _scored(case: Case, progress: Progress) -> Evidence | Absent:
    """Accuracy on the held-out samples, beside the base's on the same ones."""
    if case.data is None:
        return Absent(reason="accuracy needs labelled data: set data in the [gate] table")
    from edgeopt.api.accuracy import Accuracy
    from edgeopt.api.subject import open_subject

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
