"""`judge`: one budget against its evidence. Pass and fail are shown, never assumed.

A limit L with tolerance t is kept where the whole interval lies at or below L (1 + t), missed where
it lies above, and undecided where it straddles. A change is judged the same way on the interval of
value over base, with 1 + change + t as its limit. What has no evidence is never a pass.

The gate looks up to eight times, and at each look noise alone may put a 95 % interval beyond a
limit: with no change allowed, 6 % of a model's runs against itself failed. So a miss is claimed by
a wider interval, one that noise leaves once in 800 looks.
"""

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgeopt.core.samples import Interval
from edgeopt.gate.budget import Budget, Waiver
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.units import format_value

Status = Literal["pass", "fail", "waived", "inconclusive", "missing", "device", "incompatible"]
UNDECIDED = frozenset({"inconclusive"})
CAUTION = 1.54
"""The 99.875 % quantile of the normal distribution over its 97.5 %: 1 % for eight looks."""
_NEARLY = "beyond the limit by less than what noise does in several looks"
_NO_BASE = (
    "a change is allowed, but nothing is known beside that base model: give --base FILE or "
    "git:REF, and a device to measure on"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One budget's verdict.

    Args:
        budget: Which.
        status: What became of it.
        message: One or two sentences: what was found, against what, what to do.
        evidence: None where there is none.
        notes: What a reader should know beside the verdict (a tolerance under the noise floor).
    """

    budget: Budget
    status: Status
    message: str
    evidence: Evidence | None = None
    notes: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether it must turn the run red."""
        return self.status == "fail" and self.budget.level == "error"


def judge(
    budget: Budget,
    evidence: Evidence | Absent,
    waiver: Waiver | None = None,
    *,
    today: datetime.date,
) -> Finding:
    """The verdict on a budget.

    Args:
        budget: With a limit, a change, or both; the worse verdict counts.
        evidence: Or why there is none.
        waiver: Of this budget.
        today: Waivers end after their last day.
    """
    if isinstance(evidence, Evidence) and math.isnan(evidence.value):
        evidence = Absent(reason=f"{budget.metric.title} is no number")
    if isinstance(evidence, Absent):
        return _absent(budget, evidence, waiver, today)
    parts = [*_limit(budget, evidence), *_change(budget, evidence)]
    if not parts:
        return Finding(budget=budget, status="missing", message=_NO_BASE, evidence=evidence)
    order: tuple[Status, ...] = ("fail", "missing", "inconclusive", "pass")
    status, message = min(parts, key=lambda part: order.index(part[0]))
    notes = tuple(_notes(budget, evidence))
    found = Finding(budget=budget, status=status, message=message, evidence=evidence, notes=notes)
    if waiver is None:
        return found
    if status == "fail":
        return _waived(found, waiver, evidence, today)
    return replace(found, notes=(*notes, *_unused(waiver, status, today)))


def exit_code(findings: Sequence[Finding], *, undecided: str = "fail") -> int:
    """What the process says: docs/design.md section 5.

    Args:
        findings: Of all budgets; none at all is 5.
        undecided: `fail` exits 4, `pass` and `report` do not fail for what noise left open. Of
            what has no evidence, or from another kind of device, nothing is ever let through.
    """
    if not findings:
        return 5
    statuses = {finding.status for finding in findings if finding.budget.level == "error"}
    if "fail" in statuses:
        return 1
    if "device" in statuses:
        return 3
    if statuses & {"missing", "incompatible"}:
        return 4
    if undecided == "fail" and "inconclusive" in statuses:
        return 4
    known = {"pass", "waived", "fail"} | ({"inconclusive"} if undecided != "fail" else set[str]())
    return 0 if {finding.status for finding in findings} & known else 4


def _absent(budget: Budget, absent: Absent, waiver: Waiver | None, today: datetime.date) -> Finding:
    """What the lock says is told, but the trouble stays: only a limit that is missed is worse."""
    if absent.instead is None:
        return Finding(budget=budget, status=absent.kind, message=absent.reason)
    found = judge(budget, absent.instead, waiver, today=today)
    if found.status == "fail":
        return replace(found, notes=(*found.notes, absent.reason))
    message = f"{absent.reason}; by the lock alone: {found.message} (--no-measure takes that)"
    return replace(found, status=absent.kind, message=message)


def _unused(waiver: Waiver, status: Status, today: datetime.date) -> list[str]:
    """A waiver that nothing needs any more only hides the next miss."""
    if status != "pass":
        return []
    ended = f" ended on {waiver.until}, and it" if today > waiver.until else ""
    return [f"the waiver of line {waiver.line}{ended} is not needed: delete it"]


def _limit(budget: Budget, found: Evidence) -> list[tuple[Status, str]]:
    if budget.limit is None:
        return []
    higher = budget.metric.higher
    allowed = budget.limit * (1 - budget.tolerance if higher else 1 + budget.tolerance)
    interval = found.interval or _exactly(found.value)
    unit = budget.metric.unit
    text, limit = _text(found.value, found.interval, unit), said(budget.limit, unit)
    if text == limit and unit == "B" and found.value != budget.limit:  # equal in three digits only
        text, limit = f"{found.value:,.0f} B", f"{budget.limit:,.0f} B"
    bound = f"{'at least' if higher else 'at most'} {limit}"
    bound += f" (tolerance {budget.tolerance:.1%})" if budget.tolerance else ""
    return [_judged(interval, allowed, f"{text}, allowed {bound}", higher=higher)]


def _change(budget: Budget, found: Evidence) -> list[tuple[Status, str]]:
    if budget.change is None:
        return []
    if found.same:
        return [("pass", "the very same file as the base model")]
    if found.base is None:
        return [] if budget.limit is None else [("missing", _NO_BASE)]
    if budget.metric.higher:
        change = found.change or _exactly(found.value - found.base)
        allowed = -(budget.change + budget.tolerance)
        text = (
            f"{change.value * 100:+.2f} points [{change.low * 100:+.2f}, {change.high * 100:+.2f}]"
        )
        words = f"{text} against the base, allowed -{budget.change * 100:g} points"
        return [_judged(change, allowed, words, higher=True)]
    change = found.change or _exactly(_over(found.value, found.base))
    allowed = 1 + budget.change + budget.tolerance
    interval = "" if found.change is None else f" [{change.low - 1:+.1%}, {change.high - 1:+.1%}]"
    base = said(found.base, budget.metric.unit)
    words = f"{change.value - 1:+.1%}{interval} against the base's {base}"
    words += f", allowed +{budget.change:.1%}"
    words += f" (tolerance {budget.tolerance:.1%})" if budget.tolerance else ""
    return [_judged(change, allowed, words, higher=False)]


def _over(value: float, base: float) -> float:
    if value == base:
        return 1.0
    return value / base if base else math.inf


def _judged(interval: Interval, allowed: float, words: str, *, higher: bool) -> tuple[Status, str]:
    if higher:
        kept, missed = interval.low >= allowed, interval.high < allowed
        return ("pass" if kept else "fail" if missed else "inconclusive"), words
    if interval.high <= allowed:
        return "pass", words
    if interval.low <= allowed:
        return "inconclusive", words
    exact = interval.low == interval.value
    sure = exact or interval.value * (interval.low / interval.value) ** CAUTION > allowed
    return ("fail", words) if sure else ("inconclusive", f"{words}: {_NEARLY}")


def _waived(found: Finding, waiver: Waiver, evidence: Evidence, today: datetime.date) -> Finding:
    unit = found.budget.metric.unit
    status: Status = "waived"
    left = (waiver.until - today).days
    text = f"accepted until {waiver.until} ({left} days left) because {waiver.reason!r}"
    if today > waiver.until:
        status = "fail"
        text = f"its waiver of line {waiver.line} ended on {waiver.until} ({waiver.reason!r})"
    elif waiver.ceiling is not None and _beyond(found.budget, evidence, waiver.ceiling):
        status = "fail"
        ceiling = said(waiver.ceiling, unit)
        text = f"and beyond the {ceiling} that the waiver of line {waiver.line} allows"
    return replace(found, status=status, message=f"{found.message}; {text}")


def _beyond(budget: Budget, evidence: Evidence, ceiling: float) -> bool:
    return evidence.value < ceiling if budget.metric.higher else evidence.value > ceiling


def _notes(budget: Budget, evidence: Evidence) -> list[str]:
    notes = [evidence.note] if evidence.note else []
    allowed = budget.tolerance + (budget.change or 0.0)
    asked = budget.change is not None or budget.tolerance > 0
    if evidence.floor is not None and asked and allowed < evidence.floor:
        notes.append(
            f"changes under {evidence.floor:.1%} cannot be seen on {budget.device}: allow at least "
            f'that much, with tolerance = "{evidence.floor:.1%}"'
        )
    return notes


def _exactly(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)


def _text(value: float, interval: Interval | None, unit: str) -> str:
    if interval is None:
        return said(value, unit)
    return f"{said(value, unit)} [{said(interval.low, unit)}, {said(interval.high, unit)}]"


def said(value: float, unit: str) -> str:
    """A value for people; counts in full."""
    return format_value(value, unit) if unit else f"{value:,.0f}"
