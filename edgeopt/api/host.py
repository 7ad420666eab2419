"""Work of the host beside the boards: one thread builds, another scores.

The threads of a search wait for devices; what the host computes for all of them is queued here,
so that a workshop is only ever used by one thread. Where a device is this very machine, host work
and measurements take turns (`guard`).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from edgeopt.core.closing import Closing

T = TypeVar("T")
P = ParamSpec("P")


class Host(Closing):
    """Two queues of work on this machine.

    Args:
        guard: Held while a piece of work runs; None where no device is this machine.
    """

    def __init__(self, guard: AbstractContextManager[Any] | None = None) -> None:
        self._guard = nullcontext() if guard is None else guard
        self._build = ThreadPoolExecutor(1, "edgeopt-build")
        self._score = ThreadPoolExecutor(1, "edgeopt-score")

    def build(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue work on graphs: building, and asking a space."""
        return self._build.submit(self._guarded, work, *args, **kwargs)

    def score(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue work that comes after a measurement; pieces end in the order of their queueing."""
        return self._score.submit(self._guarded, work, *args, **kwargs)

    def _guarded(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._guard:
            return work(*args, **kwargs)

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self._build.shutdown(cancel_futures=True)
        self._score.shutdown(cancel_futures=True)
