"""`edgeopt device check` and `setup` over a real sshd, as a person types them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.board import Board, Network

pytestmark = pytest.mark.lab

Call = Callable[..., Any]


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
