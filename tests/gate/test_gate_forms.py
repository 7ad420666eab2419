"""Forms of output: each parses as what it is, and stays within its platform's limits."""

import datetime
import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from edgeopt.gate.budget import METRICS, Budget, Waiver
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.verdict import exit_code, judge
from edgeopt.gate.verdicts import Verdicts
from edgeopt.plugins import GATE_FORMATS

TODAY = datetime.date(2027, 1, 31)
NASTY = "100 % of it:\nnext, line | <b>&\x07"


def _verdicts(count: int = 1) -> Verdicts:
    findings = []
    for n in range(count):
        size = Budget(id=f"size-{n}", metric=METRICS["size"], limit=10.0, hint=NASTY, line=n + 1)
        kept = Budget(id=f"ops-{n}", metric=METRICS["ops"], limit=10.0, line=n + 2)
        away = Budget(id=f"p50-{n}", metric=METRICS["latency.p50"], device="b", limit=1.0)
        waiver = Waiver(budget="w", ceiling=None, until=TODAY, reason=NASTY)
        findings += [
            judge(size, Evidence(value=20.0, origin="exact"), today=TODAY),
            judge(kept, Evidence(value=5.0, origin="exact"), today=TODAY),
            judge(away, Absent(reason=NASTY), today=TODAY),
            judge(size, Evidence(value=20.0, origin="exact"), waiver, today=TODAY),
        ]
    return Verdicts(
        path=Path("edgeopt.toml"),
        model="net.onnx",
        digest="sha256:" + "0" * 64,
        base="git:main",
        findings=tuple(findings),
        code=exit_code(findings),
    )


NOTHING = Verdicts(
    path=Path("edgeopt.toml"), model="net.onnx", digest="sha256:0", base="", findings=(), code=5
)


def _render(name: str, verdicts: Verdicts) -> str:
    return GATE_FORMATS.load(name)(verdicts)


@pytest.mark.parametrize("name", GATE_FORMATS.names())
def test_nothing_checked_is_no_silent_green(name):
    """Every form renders it; those that people or servers look at say so."""
    text = _render(name, NOTHING)
    if name not in ("sarif", "gitlab"):
        assert "no budgets" in text


def test_junit():
    """A case a budget; missed is a failure, no evidence an error, nothing is skipped."""
    suite = Xml.fromstring(_render("junit", _verdicts())).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "1")
    assert suite.get("skipped") == "0"
    assert [case.get("name") for case in suite] == ["size-0", "ops-0", "p50-0", "size-0"]


def test_sarif():
    """Rules that results point at, places with lines, stable fingerprints."""
    log = json.loads(_render("sarif", _verdicts()))
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert log["version"] == "2.1.0"
    assert len(run["results"]) == 3
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "edgeopt.toml"
        assert place["region"]["startLine"] >= 1
        assert result["level"] in ("error", "warning", "note")
        assert len(result["partialFingerprints"]["budget/v1"]) == 32
    assert log == json.loads(_render("sarif", _verdicts()))


def test_gitlab():
    """The four things that the widget needs."""
    for issue in json.loads(_render("gitlab", _verdicts())):
        assert {"description", "check_name", "fingerprint", "severity", "location"} == issue.keys()
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"]["lines"]["begin"] >= 1


def test_github_annotations_are_escaped():
    """One line each, whatever the text holds."""
    lines = _render("github", _verdicts()).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning"]
    assert "100 %25 of it:%0Anext" in lines[0]
    assert "title=edgeopt gate%3A size-0::" in lines[0]


def test_json_has_the_numbers():
    """Value, limit and line of every budget."""
    document = json.loads(_render("json", _verdicts()))
    assert document["exit_code"] == 1
    first = document["findings"][0]
    assert (first["evidence"]["value"], first["limit"], first["line"]) == (20.0, 10.0, 1)


def test_tables_survive_any_text():
    """A pipe or a line's end in a message is no new cell."""
    rows = [line for line in _render("markdown", _verdicts()).splitlines() if line.startswith("| ")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {5}


def test_five_thousand_findings_stay_within_the_limits():
    """Nine annotations and a count of each kind, 64 Ki characters, 1 MiB, 5,000 results."""
    many = _verdicts(1250)
    github = _render("github", many).splitlines()
    assert sum(line.startswith("::error") for line in github) == 10
    assert sum(line.startswith("::warning") for line in github) == 10
    assert "1241 more" in github[9]
    assert len(_render("markdown", many)) <= 65536
    assert len(_render("summary", many).encode()) <= 1024 * 1024
    assert "did not fit" in _render("markdown", many)
    assert len(json.loads(_render("sarif", many))["runs"][0]["results"]) <= 5000
