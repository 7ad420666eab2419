"""The command line as a person meets it: answers at once, and never with a trace."""

import json

import pytest

COMMANDS = [
    "run",
    "measure",
    "report",
    "compare",
    "inspect",
    "pick",
    "export",
    "replay",
    "device",
    "zoo",
    "doctor",
    "plugins",
]


def test_help_names_every_command(edgeopt):
    """`edgeopt --help` lists what DESIGN section 7 promises for this version."""
    done = edgeopt("--help")
    assert done.code == 0
    assert all(command in done.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(edgeopt, command):
    """Every command has its own help, without loading the runtime."""
    done = edgeopt(command, "--help")
    assert done.code == 0
    assert "Usage" in done.out


def test_version(edgeopt):
    """`--version` prints the version alone."""
    assert edgeopt("--version").out.strip().count(".") == 2


def test_unknown_command_and_flag_are_usage_errors(edgeopt):
    """Usage errors end with exit code 2."""
    assert edgeopt("optimise").code == 2
    assert edgeopt("run", "--fast").code == 2


def test_plugins_lists_every_shelf_as_json(edgeopt):
    """`--json` makes stdout one document."""
    told = json.loads(edgeopt("plugins", "--json").out)
    assert told["schema_version"] == 1
    assert "static_qdq" in told["plugins"]["quantize"]
    assert "nsga2" in told["plugins"]["strategy"]


def test_a_person_is_told_when_there_is_no_study(edgeopt):
    """Reports about nothing are not empty reports."""
    done = edgeopt("report")
    assert done.code == 5
    assert "edgeopt run" in done.err


def test_doctor_says_what_a_measurement_depends_on(edgeopt):
    """Agent, runtime, store and extras, one line each."""
    done = edgeopt("doctor", "--json")
    checks = {check["name"]: check["status"] for check in json.loads(done.out)["checks"]}
    assert checks["agent"] == "OK"
    assert checks["store"] == "OK"
    assert {"onnxruntime", "profile", "disk"} <= checks.keys()
