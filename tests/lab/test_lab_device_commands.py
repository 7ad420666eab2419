"""`edgeopt device check` and `setup` over a real sshd, as a person types them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgeopt.testing.target_exam import SETTINGS, material
from tests.lab.board import Board, Network, Reach

pytestmark = pytest.mark.lab

Call = Callable[..., Any]


@pytest.fixture
def edgeopt(edgeopt_here: Call) -> Call:
    """In this process; ssh and the board's agents have their own."""
    return edgeopt_here


def checked(edgeopt: Call, *names: str, **environment: str) -> list[dict[str, Any]]:
    """The document of a check, device by device."""
    done = edgeopt("device", "check", *names, "--json", **environment)
    assert "Traceback" not in done.err
    return json.loads(done.out)["devices"]


def line(device: dict[str, Any], name: str) -> dict[str, str]:
    """The line of that name."""
    return next(each for each in device["checks"] if each["name"] == name)


def test_check_of_a_board_that_works(network: Network, board: Board, edgeopt: Call) -> None:
    """Every part answers, a model ran, and nothing is left running."""
    network.devices_file()
    (told,) = checked(edgeopt, board.name)
    assert told["ok"], told
    assert line(told, "connection")["status"] == "OK"
    assert line(told, "provider")["status"] == "OK"
    assert str(board.cache) in line(told, "folder")["text"]
    assert board.quiet()


def test_check_of_a_stranger_beside_a_board_that_works(
    network: Network, board: Board, edgeopt: Call
) -> None:
    """An unknown host key stops at the connection, with its cure; the other device is checked."""
    network.board("stranger", known=False)
    network.devices_file()
    stranger, known = checked(edgeopt, "stranger", board.name)
    assert [each["name"] for each in stranger["checks"]] == ["name", "connection"]
    assert "host key is not known" in line(stranger, "connection")["text"]
    assert "fingerprint" in line(stranger, "connection")["text"]
    assert known["ok"]


def test_clean_spares_what_a_session_uses(
    network: Network, board: Board, edgeopt: Call, reach: Reach, tmp_path: Path
) -> None:
    """While one session holds a model on the board, all else goes; then that goes, too."""
    network.devices_file()
    model, feeds = material(tmp_path)
    before = reach(board.entry)
    before.put(model)
    before.close()
    old = board.cache / "agent-0123456789ab.pyz"
    old.write_bytes(b"old")
    os.utime(old, (1, 1))  # one that has just been sent may be about to begin
    target = reach(board.entry)
    places = [target.put(path) for path in (model, feeds)]
    done = edgeopt("device", "clean", board.name, "--all", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["sessions"], told["removed"]) == (1, {"agents": 1})
    assert told["freed_bytes"] == 3
    reply = target.request(
        "footprint", deadline_s=240, model=places[0], feeds=places[1], settings=dict(SETTINGS)
    )
    assert reply["ok"], reply
    target.close()
    told = json.loads(edgeopt("device", "clean", board.name, "--all", "--json").out)
    assert told["sessions"] == 0
    assert told["removed"]["files"] == 2
    assert told["freed_bytes"] >= model.stat().st_size + feeds.stat().st_size
    assert list((board.cache / "blobs").iterdir()) == []
    assert board.quiet()


@pytest.mark.network
def test_setup_of_a_board_that_only_ssh_knows(
    network: Network, board: Board, edgeopt: Call, tmp_path: Path
) -> None:
    """No entry, no runtime in its python3: set up, written down, and measured on."""
    own = {"EDGEOPT_DEVICES": str(tmp_path / "devices.toml")}
    (before,) = checked(edgeopt, board.name, **own)
    if line(before, "onnxruntime")["status"] == "OK":
        pytest.skip("this machine's python3 has onnxruntime already")
    done = edgeopt("device", "setup", board.name, "--yes", **own)
    if done.code == 3 and "could not be downloaded" in done.err:
        pytest.skip("no package index can be reached")
    assert done.code == 0, done.err
    (after,) = checked(edgeopt, board.name, **own)
    assert after["ok"], after
    assert f"{board.cache}/venv/bin/python" in Path(own["EDGEOPT_DEVICES"]).read_text()
    assert os.path.islink(board.cache / "venv")
