"""Work of the host beside the boards: one thread builds, and each device has one that scores.

The threads of a search wait for devices; graphs are built for all of them in one queue, so that a
workshop is only ever used by one thread. Where a device is this very machine, building and
measuring take turns (`guard`); scoring does so where it computes here (`Accuracy.guard`), since
on a slow board it mostly waits for the board.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from edgeopt.core.closing import Closing

T = TypeVar("T")
P = ParamSpec("P")


class Host(Closing):
    """Queues of work on this machine.

    Args:
        guard: Held while something is built; None where no device is this machine.
    """

    def __init__(self, guard: AbstractContextManager[Any] | None = None) -> None:
        self._guard = nullcontext() if guard is None else guard
        self._build = ThreadPoolExecutor(1, "edgeopt-build")
        self._score: dict[str, ThreadPoolExecutor] = {}
        self._adding = threading.Lock()

    def build(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue work on graphs: building, and asking a space."""
        return self._build.submit(self._guarded, work, *args, **kwargs)

    def score(
        self, device: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Queue work that comes after a measurement; a device's pieces end in their order."""
        with self._adding:
            if device not in self._score:
                self._score[device] = ThreadPoolExecutor(1, f"edgeopt-score-{device}")
            return self._score[device].submit(work, *args, **kwargs)

    def _guarded(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._guard:
            return work(*args, **kwargs)

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self._build.shutdown(cancel_futures=True)
        for queue in self._score.values():
            queue.shutdown(cancel_futures=True)
