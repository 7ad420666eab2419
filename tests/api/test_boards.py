"""One measuring job per board, across threads and processes."""

import subprocess
import sys
import threading
import time

from edgeopt.api.boards import BoardLock, board_of

_HOLD = """
import sys, pathlib
from edgeopt.api.boards import BoardLock
with BoardLock("b", pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_threads_take_turns(tmp_path):
    """Two threads are never inside together; one thread may enter twice."""
    lock = BoardLock("b", tmp_path)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with lock, lock:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1


def test_another_process_is_waited_for_and_its_death_frees_the_board(tmp_path):
    """The lock file of a killed process is no obstacle."""
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == b"held\n"
    entered = threading.Event()

    def enter() -> None:
        with BoardLock("b", tmp_path):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.7)
    other.kill()
    other.wait()
    assert entered.wait(30)
    thread.join()
    other.stdout.close()
    other.stdin.close()


def test_boards_are_told_apart_by_boot(tmp_path):
    """Two devices of one boot share a lock; without a boot id every device has its own."""
    assert board_of({"boot_id": "x"}, "a") == board_of({"boot_id": "x"}, "b")
    assert board_of({}, "a") != board_of({}, "b")
