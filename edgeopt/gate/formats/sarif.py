"""SARIF 2.1.0 (OASIS), for code scanning: a result a budget that is not simply kept.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import hashlib
import json
from typing import Any
from urllib.parse import quote

from edgeopt import __version__
from edgeopt.gate.budget import METRICS
from edgeopt.gate.verdict import Finding
from edgeopt.gate.verdicts import Verdicts, sentence

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LIMIT = 5000
"""Results that code scanning takes at most of one run, the rest is dropped without a word."""


def render(verdicts: Verdicts) -> str:
    """One log with one run."""
    shown = [f for f in verdicts.worst_first if f.status != "pass"][:_LIMIT]
    names = sorted({finding.budget.metric.name for finding in shown})
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "edgeopt gate",
                "version": __version__,
                "rules": [_rule(name) for name in names],
            }
        },
        "results": [_result(finding, verdicts, names) for finding in shown],
        "invocations": [
            {"executionSuccessful": verdicts.code in (0, 1), "exitCode": verdicts.code}
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(name: str) -> dict[str, Any]:
    title = METRICS[name].title
    return {
        "id": f"budget/{name}",
        "name": "".join(part.title() for part in name.replace(".", "_").split("_")),
        "shortDescription": {"text": f"Budget of the {title}"},
    }


def _result(finding: Finding, verdicts: Verdicts, names: list[str]) -> dict[str, Any]:
    metric = finding.budget.metric.name
    mark = hashlib.sha256(f"{finding.budget.id}".encode()).hexdigest()
    result: dict[str, Any] = {
        "ruleId": f"budget/{metric}",
        "ruleIndex": names.index(metric),
        "level": "error" if finding.bad else "note" if finding.status == "waived" else "warning",
        "message": {"text": sentence(finding)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(verdicts.path.as_posix())},
                    "region": {"startLine": finding.budget.line},
                }
            }
        ],
        "partialFingerprints": {"budget/v1": mark[:32]},
    }
    if finding.status == "waived":
        result["suppressions"] = [{"kind": "inSource", "justification": finding.message}]
    return result


PLUGIN = render
