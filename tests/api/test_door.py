"""A device that went away: opened again, or its twin in its place."""

from pathlib import Path

import pytest

from edgeopt.api.device import Boards, Door
from edgeopt.errors import ConnectionLostError

LOST = ConnectionLostError("the connection ended", where="one", hint="")
HERE = '[devices.one]\nkind = "local"\ntwin = "two"\n[devices.two]\nkind = "local"\n'
GONE = (
    '[devices.one]\nkind = "local"\nexec = "/nowhere/python3"\ntwin = "two"\n'
    '[devices.two]\nkind = "local"\n'
)
OTHER = GONE + 'environment = { EDGEOPT_SYSROOT = "/nowhere" }\n'


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]):
    """The door of a device that has a twin; the devices file can be changed meanwhile."""
    devices = tmp_path / "devices.toml"
    devices.write_text(HERE)
    monkeypatch.setenv("EDGEOPT_DEVICES", str(devices))
    made = Door("one", tmp_path / "agent", Boards(), said.append, lambda: bool(said[2:]))
    yield made
    made.close()


def _rewritten(text: str, tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_text(text)


def test_a_device_that_answers_again_is_used(door):
    """The same name, the same fingerprint, a new agent."""
    before = door.device
    again = door.reopened(60.0, LOST)
    assert (again.name, again.fingerprint) == ("one", before.fingerprint)
    assert again.target is not before.target
    assert again.target.request("clock", deadline_s=60)["ok"]
    assert not again.remarks


def test_a_twin_takes_over_under_the_same_name(door, tmp_path, said):
    """Its measurements count for the device, and the report says so."""
    _rewritten(GONE, tmp_path)
    again = door.reopened(60.0, LOST)
    assert again.name == "one"
    assert any("twin two" in remark for remark in again.remarks)
    assert "two takes over" in said[0]


def test_another_machine_is_no_twin(door, tmp_path, said):
    """Facts that change a measurement differ: it is told, and the loss stands in the end."""
    _rewritten(OTHER, tmp_path)
    with pytest.raises(ConnectionLostError, match="the connection ended"):
        door.reopened(12.0, LOST)
    assert "another machine" in said[0]
