"""Markdown that fits a comment on a pull request (65,536 characters)."""

from edgeopt.gate.verdict import Finding
from edgeopt.gate.verdicts import WORDS, Verdicts, clipped

LIMIT = 65536
_REST = "… the rest did not fit; see `edgeopt gate check --format json`"


def render(verdicts: Verdicts) -> str:
    """A headline and a table, worst first."""
    return clipped(page(verdicts), LIMIT, _REST)


def page(verdicts: Verdicts) -> str:
    """The whole page, however long."""
    beside = f" beside {verdicts.base}" if verdicts.base else ""
    lines = [
        f"### {verdicts.headline}",
        "",
        f"`{verdicts.model}` ({verdicts.digest[:19]}){beside}",
        "",
        "| | budget | found | evidence |",
        "| --- | --- | --- | --- |",
        *(_row(finding) for finding in verdicts.worst_first),
    ]
    notes = [f"- {f.budget.id}: {_cell(note)}" for f in verdicts.worst_first for note in f.notes]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _row(finding: Finding) -> str:
    origin = "–" if finding.evidence is None else finding.evidence.origin
    word = WORDS[finding.status]
    mark = f"**{word}**" if finding.bad else word
    advisory = " (warning)" if finding.budget.level == "warn" else ""
    hint = finding.budget.hint if finding.status == "fail" else ""
    told = f"{finding.message}. {hint}" if hint else finding.message
    cells = (mark + advisory, finding.budget.id, told, origin)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


PLUGIN = render
