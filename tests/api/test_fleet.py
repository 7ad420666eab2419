"""Several devices in one run, as a user gives them."""

import json
from pathlib import Path

import pytest

from edgeopt.api.fleet import Meeting
from tests.conftest import DIGITS, called

pytestmark = pytest.mark.alone
RUN = ["run", str(DIGITS / "digits.onnx"), "--data", str(DIGITS / "digits.npz"), "--json"]
RUN += ["--trials", "3", "--budget", "5m", "--max-drop", "3pt", "--strategy", "random"]
RUN += ["--objectives", "latency,accuracy", "--out", "report"]
DEVICES = '[devices.one]\nkind = "local"\n[devices.two]\nkind = "local"\n'


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> tuple[Path, dict, str]:
    """One run on two devices, which share a board here."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "edgeopt-devices.toml").write_text(DEVICES)
    done = called(*RUN, "--device", "one,two", cwd=folder)
    assert done.code == 0, done.err
    return folder, json.loads(done.out), done.err


def test_every_device_has_its_baseline_and_front(fleet):
    """A front a device, each from that device's own measurements."""
    _, document, _ = fleet
    assert set(document["fronts"]) == {"one", "two"}
    for device in ("one", "two"):
        assert document["baseline"][device]["metrics"]["latency"]["value"] > 0
        assert document["fronts"][device]


def test_candidates_are_measured_on_both(fleet):
    """Recipes in common, so that ranks can be compared, and the report compares them."""
    _, document, _ = fleet
    labels = [{c.get("label") for c in document["candidates"][d]} for d in ("one", "two")]
    common = (labels[0] & labels[1]) - {"", None}
    assert "baseline" in common
    assert len(common) >= 2
    assert document["across"]


def test_a_device_that_cannot_be_opened_stops_before_anything_is_measured(fleet):
    """Exit code 3 or 2, and the name of the one at fault."""
    folder, _, _ = fleet
    done = called(*RUN, "--device", "one,nowhere.invalid", cwd=folder)
    assert done.code == 3, done.err
    assert "nowhere.invalid" in done.err


def test_a_meeting_ends_when_all_came_or_one_gave_up():
    """Nobody waits for a device that failed, nor longer than the time allows."""
    meeting = Meeting(open={"a", "b"})
    meeting.arrive("a")
    meeting.wait(lambda: False, 0.3)
    assert meeting.open == {"b"}
    meeting.arrive("b")
    meeting.wait(lambda: False, 1e9)
    assert not meeting.open
