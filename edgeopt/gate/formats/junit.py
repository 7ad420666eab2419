"""JUnit XML, which every build server reads: a test case a budget.

Missed is a failure; what could not be decided or has no evidence is an error, since a skipped test
is green everywhere; waived is a pass with its reason in the output.
"""

from xml.etree import ElementTree as Xml

from edgeopt.gate.verdict import Finding
from edgeopt.gate.verdicts import WORDS, Verdicts, sentence


def render(verdicts: Verdicts) -> str:
    """One test suite."""
    cases = [_case(finding, verdicts) for finding in verdicts.findings]
    if not cases:
        empty = Xml.Element("testcase", name="budgets", classname="edgeopt.gate")
        Xml.SubElement(empty, "error", message=verdicts.headline, type="nothing")
        cases = [empty]
    suite = Xml.Element(
        "testsuite",
        name="edgeopt gate",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped="0",
        time="0",
    )
    suite.extend(cases)
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True)


def _case(finding: Finding, verdicts: Verdicts) -> Xml.Element:
    budget = finding.budget
    case = Xml.Element(
        "testcase",
        name=_clean(budget.id),
        classname="edgeopt.gate",
        file=str(verdicts.path),
        line=str(budget.line),
        time="0",
    )
    text = _clean(sentence(finding))
    if finding.bad:
        Xml.SubElement(case, "failure", message=text, type=budget.metric.name).text = text
    elif finding.status in ("pass", "waived") or budget.level == "warn":
        Xml.SubElement(case, "system-out").text = f"{WORDS[finding.status]}: {text}"
    else:
        Xml.SubElement(case, "error", message=text, type=finding.status).text = text
    return case


def _clean(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(letter for letter in text if letter >= " " or letter in "\t\n")


PLUGIN = render
