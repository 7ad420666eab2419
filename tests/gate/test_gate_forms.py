"""Forms of output: each parses as what it is, and stays within its platform's limits."""

import datetime
import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import jsonschema
import junitparser
import pytest

from edgeopt.gate.budget import METRICS, Budget, Waiver
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.gate.verdict import exit_code, judge
from edgeopt.gate.verdicts import Verdicts
from edgeopt.plugins import GATE_FORMATS

TODAY = datetime.date(2027, 1, 31)
NASTY = "100 % of it:\nnext, line | <b>&\x07 größe ✓ ]]>"
SARIF = Path(__file__).with_name("data") / "sarif-2.1.0.json"
# As GitLab documents the report: five keys, of which it drops an issue that lacks one.
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^[^./]"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
        "additionalProperties": False,
    },
}
COMMAND = re.compile(r"^::(?P<name>[a-z]+)(?: (?P<keys>[^\n]*?))?::(?P<text>[^\r\n]*)$")


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


def test_junit_reads_back():
    """A parser that build servers' plug-ins use finds every case with its result and its text."""
    suites = junitparser.JUnitXml.fromstring(_render("junit", _verdicts(2)).encode())
    cases = [case for suite in suites for case in suite]
    kinds = [[type(result).__name__ for result in case.result] for case in cases]
    assert kinds == [["Failure"], [], ["Error"], []] * 2
    assert "größe ✓ ]]>" in cases[0].result[0].message
    assert (suites.tests, suites.failures, suites.errors) == (8, 2, 2)


@pytest.mark.parametrize("count", [0, 3])
def test_sarif_keeps_its_schema(count):
    """The official one."""
    schema = json.loads(SARIF.read_text(encoding="utf-8"))
    log = json.loads(_render("sarif", _verdicts(count) if count else NOTHING))
    jsonschema.Draft202012Validator(schema).validate(log)
    log["runs"][0]["tool"]["driver"]["nmae"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(log)


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
    """What its documentation asks of a report; fingerprints that tell budgets apart, and stay."""
    issues = json.loads(_render("gitlab", _verdicts(3)))
    jsonschema.validate(issues, CODE_QUALITY)
    assert len({issue["fingerprint"] for issue in issues}) == 6
    assert issues == json.loads(_render("gitlab", _verdicts(3)))
    jsonschema.validate(json.loads(_render("gitlab", NOTHING)), CODE_QUALITY)


def _commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as the runner reads them."""
    found = []
    for line in text.split("\n"):
        command = COMMAND.match(line)
        assert command is not None, line
        pairs = (pair.partition("=") for pair in (command["keys"] or "").split(","))
        keys = {
            key: _unescaped(value.replace("%3A", ":").replace("%2C", ","))
            for key, _, value in pairs
        }
        found.append((command["name"], keys, _unescaped(command["text"])))
    return found


def _unescaped(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def test_github_annotations_read_back():
    """One command an annotation, whatever the text holds; on the budget's line of the file."""
    found = _commands(_render("github", _verdicts()))
    assert [name for name, _, _ in found] == ["error", "warning"]
    _, keys, text = found[0]
    assert keys == {"file": "edgeopt.toml", "line": "1", "title": "edgeopt gate: size-0"}
    assert text.endswith(NASTY)


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


@pytest.fixture(scope="module")
def many() -> Verdicts:
    """5,000 findings, half of them bad."""
    return _verdicts(1250)


def test_five_thousand_annotations(many):
    """The worst nine of a kind and a count, since a step shows ten and drops the rest."""
    github = _render("github", many).splitlines()
    assert sum(line.startswith("::error") for line in github) == 10
    assert sum(line.startswith("::warning") for line in github) == 10
    assert "1241 more" in github[9]


def test_five_thousand_rows(many):
    """A comment holds 65,536 characters, a job summary 1 MiB; what was cut is said."""
    assert len(_render("markdown", many)) <= 65536
    assert len(_render("summary", many).encode()) <= 1024 * 1024
    assert "did not fit" in _render("markdown", many)
    assert "1250 MISSED" in _render("markdown", many)


def test_five_thousand_results(many):
    """Files for servers hold them all, but code scanning takes 5,000 at most."""
    assert len(json.loads(_render("sarif", many))["runs"][0]["results"]) == 3750
    assert len(json.loads(_render("gitlab", many))) == 2500
    assert junitparser.JUnitXml.fromstring(_render("junit", many).encode()).tests == 5000
