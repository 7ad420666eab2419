"""`edgeopt measure` as a person types it: what is known is answered, bad words are refused."""

import json

import pytest

from edgeopt.testing import graphs


@pytest.fixture
def edgeopt(edgeopt_here):
    """In this process; agents have processes of their own all the same."""
    return edgeopt_here


@pytest.fixture
def model(tmp_path):
    return graphs.write(graphs.gemm_chain(), tmp_path, "small.onnx")


@pytest.fixture
def apart(tmp_path):
    """Locks of the agent in a folder of this test's own."""
    return {"TMPDIR": str(tmp_path), "EDGEOPT_CACHE": str(tmp_path / "cache")}


@pytest.mark.alone
def test_the_same_question_is_answered_from_the_workspace(edgeopt, model, apart):
    """With its age; `--fresh` measures again, another rate is another question."""
    words = ("measure", model, "--protocol", "quick", "--json")
    first = json.loads(edgeopt(*words, **apart).out)
    assert first["age_s"] == 0
    assert {"latency", "size", "load", "first_run"} <= first["values"].keys()
    again = json.loads(edgeopt(*words, **apart).out)
    if first["verdict"]["status"] != "invalid":
        assert again["age_s"] > 0
        assert again["values"] == first["values"]
        assert "--fresh measures again" in again["text"]
    fresh = json.loads(edgeopt(*words, "--fresh", "--no-energy", **apart).out)
    assert fresh["age_s"] == 0
    assert fresh["absent"]["energy"] == "not measured: it was not asked for"


def test_a_rate_is_measured(edgeopt, model, apart):
    """Paced latency and misses, in the text as well."""
    done = edgeopt("measure", model, "--protocol", "quick", "--rate", "50/s", "--json", **apart)
    told = json.loads(done.out)
    assert {"paced_latency", "deadline_misses"} <= told["values"].keys()
    assert "at 50/s" in told["text"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rate", "fast"), ("--rate", "0"), ("--wait", "30"), ("--protocol", "slow")],
)
def test_bad_words_are_usage_errors(edgeopt, model, option, value):
    """Exit code 2 with what to write instead, before a device is opened."""
    done = edgeopt("measure", model, option, value)
    assert done.code == 2
    assert "write" in done.err or "use" in done.err
    assert "Traceback" not in done.err
