"""Several devices in one run, as a user gives them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.api.fleet import Meeting
from tests.conftest import DIGITS

RUN = ["run", str(DIGITS / "digits.onnx"), "--data", str(DIGITS / "digits.npz"), "--json"]
RUN += ["--trials", "4", "--budget", "100s", "--max-drop", "3pt", "--strategy", "random"]
RUN += ["--objectives", "latency,accuracy,size", "--out", "report"]
DEVICES = '[devices.one]\nkind = "local"\n[devices.two]\nkind = "local"\n'


def _edgeopt(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgeopt", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=570,
    )


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> tuple[Path, dict, str]:
    """One run on two devices, which share a board here."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "edgeopt-devices.toml").write_text(DEVICES)
    done = _edgeopt(folder, *RUN, "--device", "one,two")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


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
    done = _edgeopt(folder, *RUN, "--device", "one,nowhere.invalid")
    assert done.returncode == 3, done.stderr
    assert "nowhere.invalid" in done.stderr


def test_a_meeting_ends_when_all_came_or_one_gave_up():
    """Nobody waits for a device that failed, nor longer than the time allows."""
    meeting = Meeting(open={"a", "b"})
    meeting.arrive("a")
    meeting.wait(lambda: False, 0.3)
    assert meeting.open == {"b"}
    meeting.arrive("b")
    meeting.wait(lambda: False, 1e9)
    assert not meeting.open
