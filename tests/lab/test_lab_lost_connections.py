"""A connection that is cut, stalls, or loses its host: no lost result, no process left behind."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgeopt.core.protocols import Target
from edgeopt.errors import ConnectionLostError, DeviceError
from edgeopt.targets.pipe import Patience
from edgeopt.testing.target_exam import bench_job, material
from tests.lab import openssh
from tests.lab.board import Board, Network, Reach

pytestmark = pytest.mark.lab

PATIENCE = Patience(total_s=120.0, first_s=0.2, longest_s=2.0)


def one_round(target: Target, folder: Path, number: int) -> None:
    """New files, a job with them, and each third time a file back: all that crosses the wire."""
    model, feeds = material(folder)
    extra = folder / f"extra-{number}.bin"
    extra.write_bytes(random.Random(number).randbytes(300_000))
    assert target.put(extra)
    places = target.put(model), target.put(feeds)
    reply = target.request("bench", deadline_s=240, **bench_job(*places))
    assert reply["ok"], reply
    assert len(reply["candidate"]["blocks"]) == 2
    if number % 3:
        return
    alone = {"model": places[0], "feeds": places[1], "settings": {"threads": 1}}
    outputs = target.request("infer", deadline_s=240, **alone)["outputs"]
    assert target.fetch(outputs).stat().st_size > 0


@pytest.mark.parametrize("wanted", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_cut_at_random_moments(wanted: int, reach: Reach, board: Board, tmp_path: Path) -> None:
    """Cut at random moments of a sequence of uploads, jobs and downloads: all answered.

    A moment is a number of bytes carried, so that each falls somewhere else in the protocol. Slow
    with twenty moments; six are tried every time.
    """
    rng = random.Random(20261129)
    target = reach(board.entry, patience=PATIENCE)
    start = board.wire.carried
    one_round(target, tmp_path, 0)
    usual = board.wire.carried - start
    cuts = number = 0
    while cuts < wanted:
        number += 1
        board.wire.cut_after(rng.randrange(1, usual))
        one_round(target, tmp_path, number)
        cuts += not board.wire.armed
        assert number < 4 * wanted
    board.wire.cut_after(0)
    one_round(target, tmp_path, number + 1)
    target.close()
    assert board.quiet(), board.processes()
    assert not list(board.cache.rglob(".part*")), "no half file stays"


def opening(reach: Reach, board: Board) -> DeviceError | None:
    """Open and close the board; the error where that fails."""
    try:
        reach(board.entry, patience=PATIENCE).close()
    except DeviceError as error:
        return error
    return None


def test_cut_while_connecting(reach: Reach, board: Board, tmp_path: Path) -> None:
    """Cut during the handshake or the agent's upload: opened all the same, or lost by name."""
    for count in (10, 2_000, 5_000, 20_000, 40_000):
        board.wire.cut_after(count)
        error = opening(reach, board)
        if error is not None:
            assert isinstance(error, ConnectionLostError)
            assert board.name in error.where
        board.wire.cut_after(0)
        assert board.quiet(), board.processes()
    target = reach(board.entry)
    one_round(target, tmp_path, 1)
    target.close()


def test_result_waits(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A job that ends while its reply cannot be sent is not measured again: the result waits."""
    target = reach(board.entry, patience=PATIENCE)
    model, feeds = material(tmp_path)
    job = bench_job(target.put(model), target.put(feeds), min_seconds=0.5)
    results: list[tuple[Path, int]] = []

    def kept() -> bool:
        results[:] = [
            (path, path.stat().st_mtime_ns) for path in board.cache.glob("results/*.json")
        ]
        return bool(results)

    def cut_when_done() -> None:
        openssh.wait_for(lambda: any("--job" in each.command for each in board.processes()))
        board.wire.stall()
        openssh.wait_for(kept)
        board.wire.cut()
        board.wire.flow()

    cutter = threading.Thread(target=cut_when_done)
    cutter.start()
    reply = target.request("bench", deadline_s=240, **job)
    cutter.join()
    assert reply["ok"]
    before = list(results)
    assert kept()
    assert results == before, "neither done again nor written again"
    target.close()
    assert board.quiet()


def test_board_that_stays_away(reach: Reach, board: Board, tmp_path: Path) -> None:
    """Unplugged in the middle of a job and not plugged again: lost, within the patience."""
    target = reach(board.entry, patience=Patience(total_s=3.0, first_s=0.2, longest_s=1.0))
    model, feeds = material(tmp_path)
    job = bench_job(target.put(model), target.put(feeds), min_seconds=60.0)
    threading.Timer(2.0, board.wire.unplug).start()
    with pytest.raises(ConnectionLostError) as caught:
        target.request("bench", deadline_s=300, **job)
    assert board.name in caught.value.where
    assert caught.value.hint
    assert board.quiet(), "the board does not stay busy for a host that is away"
    board.wire.plug()
    one_round(target, tmp_path, 1)
    target.close()


def test_board_restarts(reach: Reach, board: Board, tmp_path: Path) -> None:
    """Server and all processes die in the middle of a job, and come back: the job is repeated."""
    target = reach(board.entry, patience=PATIENCE)
    model, feeds = material(tmp_path)
    job = bench_job(target.put(model), target.put(feeds), min_seconds=1.5)

    def restart() -> None:
        board.sshd.stop()
        board.kill()
        board.sshd.start()

    timer = threading.Timer(2.0, restart)
    timer.start()
    reply = target.request("bench", deadline_s=240, **job)
    timer.join()
    assert reply["ok"], reply
    target.close()
    assert board.quiet()


CLIENT = """
import sys
from pathlib import Path
from edgeopt.core.device import DeviceEntry
from edgeopt.targets.open import open_target
from edgeopt.testing.target_exam import bench_job, material
folder = Path(sys.argv[1])
target = open_target(DeviceEntry(name="lab-ssh", python=sys.argv[2]), folder=folder)
model, feeds = material(folder)
job = bench_job(target.put(model), target.put(feeds), min_seconds=300.0)
print("working", flush=True)
target.request("bench", deadline_s=900, **job)
"""


@pytest.mark.parametrize("whole_group", [False, True], ids=["client", "client and its ssh"])
def test_killed_client(
    reach: Reach, network: Network, board: Board, tmp_path: Path, whole_group: bool
) -> None:
    """kill -9 of the client during a job, with or without its ssh: nothing stays on the board."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(tmp_path), sys.executable],
        stdout=subprocess.PIPE,
        env={**os.environ, **network.environment},
        start_new_session=True,
    )
    assert client.stdout
    assert client.stdout.readline() == b"working\n"
    assert openssh.wait_for(lambda: any("--job" in each.command for each in board.processes()))
    below = openssh.descendants(client.pid)
    os.kill(client.pid, signal.SIGKILL)
    if whole_group:
        for pid in below:
            os.kill(pid, signal.SIGKILL)
    client.wait()
    client.stdout.close()
    assert board.quiet(60.0), board.processes()
    target = reach(board.entry)
    one_round(target, tmp_path, 1)
    target.close()


@pytest.mark.slow
def test_silent_wire(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A wire that carries nothing and says nothing, in the middle of a job: noticed by the beats.

    Slow: three beats must be missed. The agent ends by itself as well, so the board is free.
    """
    target = reach(board.entry, patience=PATIENCE)
    model, feeds = material(tmp_path)
    job = bench_job(target.put(model), target.put(feeds), min_seconds=5.0)
    threading.Timer(3.0, board.wire.stall).start()
    threading.Timer(60.0, board.wire.flow).start()
    reply = target.request("bench", deadline_s=300, **job)
    assert reply["ok"]
    target.close()
    assert board.quiet(120.0), board.processes()
