"""For programs: every finding with its numbers, SI, under a version."""

import json
from typing import Any

from edgeopt.core.codec import encode
from edgeopt.gate.verdict import Finding
from edgeopt.gate.verdicts import Verdicts


def render(verdicts: Verdicts) -> str:
    """One JSON document."""
    return json.dumps(document(verdicts), indent=2)


def document(verdicts: Verdicts) -> dict[str, Any]:
    """The document before it is text."""
    return {
        "schema_version": 1,
        "exit_code": verdicts.code,
        "headline": verdicts.headline,
        "model": verdicts.model,
        "model_digest": verdicts.digest,
        "base": verdicts.base or None,
        "left_out": verdicts.left_out,
        "findings": [_finding(finding, verdicts) for finding in verdicts.findings],
    }


def _finding(finding: Finding, verdicts: Verdicts) -> dict[str, Any]:
    budget = finding.budget
    return {
        "budget": budget.id,
        "metric": budget.metric.name,
        "unit": budget.metric.unit,
        "device": budget.device or None,
        "status": finding.status,
        "level": budget.level,
        "limit": budget.limit,
        "change": budget.change,
        "tolerance": budget.tolerance,
        "message": finding.message,
        "evidence": None if finding.evidence is None else encode(finding.evidence),
        "notes": list(finding.notes),
        "file": str(verdicts.path),
        "line": budget.line,
    }


PLUGIN = render
