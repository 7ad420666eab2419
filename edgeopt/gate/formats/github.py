"""GitHub's workflow commands: annotations on the budget's line of edgeopt.toml.

A step shows ten annotations of a kind and drops the rest without a word, so the worst nine are
written and a tenth says how many more there are. `%`, CR and LF are escaped, in properties also
`:` and `,` (https://docs.github.com/actions/reference/workflow-commands-for-github-actions).
"""

from edgeopt.gate.verdict import Finding
from edgeopt.gate.verdicts import Verdicts, sentence

SHOWN = 9


def render(verdicts: Verdicts) -> str:
    """One line an annotation, at most ten of a kind."""
    lines: list[str] = []
    for kind in ("error", "warning"):
        found = [f for f in verdicts.worst_first if _kind(f) == kind]
        lines += [_annotation(kind, finding, verdicts) for finding in found[:SHOWN]]
        if len(found) > SHOWN:
            rest = len(found) - SHOWN
            lines.append(f"::{kind} title=edgeopt gate::{rest} more in the job summary")
    if not verdicts.findings:
        lines.append(f"::error title=edgeopt gate::{_data(verdicts.headline)}")
    return "\n".join(lines)


def _kind(finding: Finding) -> str:
    if finding.status in ("pass", "waived"):
        return ""
    return "error" if finding.bad else "warning"


def _annotation(kind: str, finding: Finding, verdicts: Verdicts) -> str:
    place = f"file={_property(verdicts.path.as_posix())},line={finding.budget.line}"
    title = _property(f"edgeopt gate: {finding.budget.id}")
    return f"::{kind} {place},title={title}::{_data(sentence(finding))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


PLUGIN = render
