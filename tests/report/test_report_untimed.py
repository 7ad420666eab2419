"""Candidates that the host ruled out before they were timed: every format takes them."""

from report_factory import context, study, trial, trials

from edgeopt.api.screening import NOT_TIMED, spared_time
from edgeopt.core.measurement import Measurement, Value
from edgeopt.report.document import document
from edgeopt.report.files import write_report
from edgeopt.report.terminal import terminal


def test_a_report_takes_what_was_not_timed(tmp_path):
    """Outside of the front, with its reason; and the report says how many there were."""
    given = trials()
    values = {"accuracy": Value(value=0.4, unit="1"), "size": Value(value=10.0, unit="B")}
    ruled_out = Measurement(values=values, absent={"latency": NOT_TIMED})
    made = trial(given[-1].number + 1, ruled_out, "z")
    found = document(study(), [*given, made], context())
    assert found["fronts"] == document(study(), given, context())["fronts"]
    write_report(found, tmp_path)
    assert NOT_TIMED in (tmp_path / "report.json").read_text()
    assert terminal(found)
    assert "1 candidates were not timed" in spared_time([ruled_out])[0]
