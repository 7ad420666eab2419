"""`edgeopt gate check`: a project's budgets against what its model is, needs and does.

Evidence comes in this order: from the file itself; measured now, interleaved with the base; a
receipt in the lock for the same model, device and protocol; none, which is never a pass.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from edgeopt.api.gate_case import Case, GateRequest, Progress, open_case
from edgeopt.api.gate_evidence import gathered
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.verdict import exit_code, judge
from edgeopt.gate.verdicts import Verdicts


def check(request: GateRequest, progress: Progress) -> Verdicts:
    """All budgets, judged.

    Raises:
        ConfigError: Something in edgeopt.toml or in the lock is wrong, with file and line.
        ModelError, DataError, UsageError: What they name cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="edgeopt-") as folder:
        case = open_case(request.checked(), Path(folder), progress)
        found, _ = gathered(case, Path(folder), progress)
    return _judged(case, found)


def _judged(case: Case, found: Mapping[str, Evidence | Absent]) -> Verdicts:
    findings = tuple(
        judge(budget, found[budget.id], case.gate.waiver_of(budget), today=case.request.today)
        for budget in case.gate.budgets
    )
    return Verdicts(
        path=_shown(case.gate.path, case.request.root),
        model=str(_shown(case.model.path, case.request.root)),
        digest=case.model.digest,
        base="" if case.base is None else case.base.words,
        findings=findings,
        left_out=case.left_out,
        code=exit_code(findings, undecided=case.request.undecided),
    )


def _shown(path: Path, root: Path | None) -> Path:
    """Below the root where it lies there, as annotations need it."""
    try:
        return path.resolve().relative_to((root or Path.cwd()).resolve())
    except ValueError:
        return path
