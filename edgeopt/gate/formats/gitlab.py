"""GitLab's Code Quality report: a JSON array of issues.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

import hashlib
import json
from typing import Any

from edgeopt.gate.verdict import Finding
from edgeopt.gate.verdicts import Verdicts, sentence


def render(verdicts: Verdicts) -> str:
    """Issues for whatever is not simply kept."""
    shown = [f for f in verdicts.worst_first if f.status not in ("pass", "waived")]
    return json.dumps([_issue(finding, verdicts) for finding in shown], indent=2)


def _issue(finding: Finding, verdicts: Verdicts) -> dict[str, Any]:
    mark = hashlib.sha256(f"{verdicts.path}\n{finding.budget.id}".encode()).hexdigest()
    return {
        "description": sentence(finding),
        "check_name": f"budget/{finding.budget.metric.name}",
        "fingerprint": mark,
        "severity": "critical" if finding.bad else "minor",
        "location": {
            "path": verdicts.path.as_posix(),
            "lines": {"begin": finding.budget.line},
        },
    }


PLUGIN = render
