"""`Verdicts`: everything that one check found, as the forms of output read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeopt.gate.verdict import Finding

WORDS = {
    "pass": "kept",
    "fail": "MISSED",
    "waived": "waived",
    "inconclusive": "undecided",
    "missing": "no evidence",
    "device": "device trouble",
    "incompatible": "not comparable",
}
"""How people are told of a status."""
_ORDER = ("fail", "device", "missing", "incompatible", "inconclusive", "waived", "pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """One run of the gate.

    Args:
        path: Of edgeopt.toml, relative to the working folder where it lies below it.
        model: As the file names it.
        digest: Of the model.
        base: Of the base model, in words; empty without one.
        findings: One a budget, in the file's order.
        code: Exit code of the process.
        left_out: Budgets that were not looked at, since only static ones were asked for.
    """

    path: Path
    model: str
    digest: str
    base: str
    findings: tuple[Finding, ...]
    code: int
    left_out: int = 0

    @property
    def worst_first(self) -> Sequence[Finding]:
        """Findings in the order in which someone should read them."""
        return sorted(self.findings, key=lambda finding: _ORDER.index(finding.status))

    @property
    def headline(self) -> str:
        """One line: how many of each."""
        rest = f" ({self.left_out} that the file alone does not decide not asked for)"
        rest = rest if self.left_out else ""
        if not self.findings:
            return f"edgeopt gate: no budgets, so nothing was checked{rest}"
        counts = dict.fromkeys(_ORDER, 0)
        for finding in self.findings:
            counts[finding.status] += 1
        told = ", ".join(f"{n} {WORDS[status]}" for status, n in counts.items() if n)
        return f"edgeopt gate: {told}{rest}"


def sentence(finding: Finding) -> str:
    """What was found, with the project's hint where it was missed."""
    text = f"{finding.budget.id}: {finding.message}"
    hint = finding.budget.hint if finding.status == "fail" else ""
    return f"{text}. {hint}" if hint else text


def clipped(text: str, limit: int, rest: str) -> str:
    """A text within a platform's limit in UTF-8 bytes, cut at a line, with a last line instead."""
    if len(text.encode()) <= limit:
        return text
    kept: list[str] = []
    left = limit - len(rest.encode()) - 1
    for line in text.splitlines():
        left -= len(line.encode()) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join([*kept, rest])
