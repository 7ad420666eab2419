"""Logging in to a real sshd: keys, host keys, jump hosts, and what is said when it fails."""

import subprocess

import pytest

from edgeopt.errors import ConnectionLostError, DeviceError
from tests.lab import openssh
from tests.lab.board import Board, Network, Reach

pytestmark = pytest.mark.lab


def answers(reach: Reach, board: Board) -> bool:
    target = reach(board.entry)
    try:
        return bool(target.request("hello", deadline_s=120)["ok"])
    finally:
        target.close()


def refused(reach: Reach, board: Board) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        reach(board.entry)
    assert caught.value.exit_code == 3
    assert board.name in caught.value.where
    assert not board.processes()
    return caught.value


def test_key_file(board: Board, reach: Reach) -> None:
    """A key file of the configuration logs in, and nothing runs on the board afterwards."""
    assert answers(reach, board)
    assert board.quiet()


def test_key_in_agent(network: Network, board: Board, reach: Reach) -> None:
    """A key that only the ssh-agent holds logs in."""
    agent = network.agent(network.key)
    network.client(
        board.name, IdentityFile="none", IdentityAgent=f'"{agent.socket}"', IdentitiesOnly=""
    )
    assert answers(reach, board)


def test_no_key_accepted(network: Network, board: Board, reach: Reach) -> None:
    """A key that the board does not take: said with the file, and how to bring it there."""
    other = openssh.make_key(network.folder / "other")
    network.client(board.name, IdentityFile=f'"{other}"')
    error = refused(reach, board)
    assert "permission denied" in error.what
    assert str(other) in error.what
    assert "ssh-copy-id" in error.hint


def test_unknown_host_key(network: Network, reach: Reach) -> None:
    """A board whose key nobody has seen is refused, and its key is not written down."""
    board = network.board("stranger", known=False)
    error = refused(reach, board)
    assert "host key is not known" in error.what
    assert "fingerprint" in error.hint
    assert "stranger" not in network.known_hosts.read_text()


def test_changed_host_key(network: Network, board: Board, reach: Reach) -> None:
    """A board that comes back with another key is refused: the line and the cure are named."""
    board.sshd.new_host_key()
    error = refused(reach, board)
    assert "not the one that is known" in error.what
    assert f"{network.known_hosts}, line 1" in error.what
    assert "ssh-keygen" in error.hint
    cure = error.hint.split("`")[1]
    subprocess.run(cure, shell=True, check=True, capture_output=True, timeout=60)
    assert not network.known_hosts.read_text().strip(), "the cure removes the old key"
    network.trust(board)
    assert answers(reach, board)


def test_jump_host(network: Network, board: Board, reach: Reach) -> None:
    """ProxyJump of the user's configuration is followed."""
    jump = network.board("jump")
    network.client(board.name, ProxyJump="jump")
    assert answers(reach, board)
    assert jump.wire.connections > 0
    assert not jump.processes(), "the agent runs on the board, not on the jump host"


def test_jump_host_that_refuses(network: Network, board: Board, reach: Reach) -> None:
    """A jump host that does not let us in is named: it is not the board's fault."""
    network.board("jump")
    other = openssh.make_key(network.folder / "other")
    network.client("jump", IdentityFile=f'"{other}"')
    network.client(board.name, ProxyJump="jump")
    error = refused(reach, board)
    assert "jump host jump" in error.what
    assert "permission denied" in error.what
    assert "`ssh jump` must work first" in error.hint


def test_board_behind_jump_is_off(network: Network, board: Board, reach: Reach) -> None:
    """The jump host is there, the board behind it is not: that is what is said."""
    network.board("jump")
    network.client(board.name, ProxyJump="jump")
    board.sshd.stop()
    board.wire.close()
    error = refused(reach, board)
    assert isinstance(error, ConnectionLostError)
    assert "behind it" in error.what


def test_live_master_is_reused(network: Network, board: Board, reach: Reach) -> None:
    """The user's own live master connection is used: no further login, and it stays open."""
    network.client(board.name, ControlPath=f'"{network.folder}/%C"', ControlMaster="no")
    ssh = ["ssh", "-F", str(network.config)]
    subprocess.run([*ssh, "-M", "-N", "-f", board.name], check=True, timeout=60)
    before = board.wire.connections
    other = openssh.make_key(network.folder / "other")
    network.client(
        board.name,
        ControlPath=f'"{network.folder}/%C"',
        ControlMaster="no",
        IdentityFile=f'"{other}"',
    )
    assert answers(reach, board), "only the master's login can have done it"
    assert board.wire.connections == before
    check = subprocess.run([*ssh, "-O", "check", board.name], check=False, capture_output=True)
    assert check.returncode == 0


def test_nothing_listens(board: Board, reach: Reach) -> None:
    """A board that is on without an ssh server: refused, and may come back."""
    board.wire.close()
    assert isinstance(refused(reach, board), ConnectionLostError)


def test_no_such_host(network: Network, board: Board, reach: Reach) -> None:
    """A name that leads nowhere is said to lead nowhere."""
    network.client(board.name, HostName="no-such-board.invalid")
    error = refused(reach, board)
    assert "no-such-board.invalid" in error.what
