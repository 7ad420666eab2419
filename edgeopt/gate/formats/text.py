"""For a terminal: one line a budget, what speaks against it first."""

from edgeopt.gate.verdicts import WORDS, Verdicts, sentence


def render(verdicts: Verdicts) -> str:
    """A headline, then the budgets, worst first."""
    lines = [verdicts.headline]
    for finding in verdicts.worst_first:
        place = f"{verdicts.path}:{finding.budget.line}"
        advisory = " (warning only)" if finding.budget.level == "warn" else ""
        lines.append(f"  {WORDS[finding.status]:<14} {sentence(finding)}{advisory}")
        lines += [f"  {'':<14} {note}" for note in finding.notes]
        if finding.status not in ("pass", "waived"):
            lines.append(f"  {'':<14} {place}")
    missed = next((f.budget.id for f in verdicts.worst_first if f.bad), None)
    if missed is not None:
        words = f"`edgeopt gate explain {missed}` says what it means, `edgeopt gate waive {missed}`"
        lines.append(f"  {words} accepts it for a while")
    return "\n".join(lines)


PLUGIN = render
