"""Two who measure on one board at once, and a lock that somebody left behind."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edgeopt.testing.target_exam import bench_job, material
from tests.lab import openssh
from tests.lab.board import Board, Reach

pytestmark = pytest.mark.lab


def job_of(target: Any, folder: Path, **changed: Any) -> dict[str, Any]:
    model, feeds = material(folder)
    return bench_job(target.put(model), target.put(feeds), **changed)


def test_second_client_waits(reach: Reach, board: Board, tmp_path: Path) -> None:
    """Two clients measure on one board: both get a result, and never do two jobs run at once."""
    targets = [reach(board.entry) for _ in range(2)]
    jobs = [job_of(each, tmp_path, min_seconds=0.5) for each in targets]
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.1):
            running = [each for each in board.processes() if "--job" in each.command]
            most = max(most, len(running))

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(2) as pool:
        replies = list(
            pool.map(
                lambda pair: pair[0].request("bench", deadline_s=240, **pair[1]),
                zip(targets, jobs, strict=True),
            )
        )
    done.set()
    watcher.join()
    assert [reply["ok"] for reply in replies] == [True, True], replies
    assert most == 1
    for target in targets:
        target.close()
    assert board.quiet()


def test_who_holds_it(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A second client that does not want to wait is told who measures, from where, since when."""
    first, second = (reach(board.entry) for _ in range(2))
    long, short = job_of(first, tmp_path, min_seconds=2.5), job_of(second, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: first.request("bench", deadline_s=240, **long))
        assert openssh.wait_for(lambda: any("--job" in p.command for p in board.processes()))
        reply = second.request("bench", deadline_s=60, wait_s=1.0, **short)
        assert not reply["ok"]
        assert reply["error"]["code"] == "board_busy", reply
        assert openssh.USER in reply["error"]["text"]
        assert waiting.result()["ok"]
    assert second.request("bench", deadline_s=240, **short)["ok"], "free again"
    for target in (first, second):
        target.close()


def test_stale_lock(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A lock file of an agent that is long gone is no obstacle: the kernel knows who holds it."""
    board.cache.mkdir(parents=True)
    note = {"owner": "somebody", "host": "elsewhere", "pid": 999_999, "start": 0}
    (board.cache / "device.lock").write_text(json.dumps(note))
    target = reach(board.entry)
    assert target.request("bench", deadline_s=240, **job_of(target, tmp_path))["ok"]
    target.close()


def test_holder_killed(reach: Reach, board: Board, tmp_path: Path) -> None:
    """The agent that measures is killed with -9: the next client gets the board at once."""
    first, second = (reach(board.entry) for _ in range(2))
    long = job_of(first, tmp_path, min_seconds=60.0)
    short = job_of(second, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: first.request("bench", deadline_s=400, **long))
        assert openssh.wait_for(lambda: any("--job" in p.command for p in board.processes()))
        first.close()
        board.kill()
        assert waiting.exception(60) is not None
    reply = second.request("bench", deadline_s=240, wait_s=30.0, **short)
    assert reply["ok"], reply
    second.close()
    assert board.quiet()
