"""Drives a board's sensor files from a known power, and knows the true energy.

The truth is what was really held: a writer that was late on a loaded machine held the old value
longer, and both the files and the integral say so.
"""

import bisect
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.boards.boards import write_watts


class Waveform:
    """A thread that writes readings; use it as a context.

    Args:
        root: A folder from `build`.
        board: Its name.
        watts: True power at seconds since the start.
        period_s: How often the sensor converts.
        joules: What a counter shows at the start.
    """

    def __init__(
        self,
        root: Path,
        board: str,
        watts: Callable[[float], float],
        *,
        period_s: float = 0.02,
        joules: float = 10.0,
    ) -> None:
        self._root, self._board, self._watts = root, board, watts
        self._period_s, self._joules = period_s, joules
        self._times: list[float] = []
        self._powers: list[float] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        begin = time.monotonic()
        while not self._end.is_set():
            now = time.monotonic()
            power = self._watts(now - begin)
            if self._times:
                self._joules += self._powers[-1] * (now - self._times[-1])
            write_watts(self._root, self._board, watts=power, joules=self._joules)
            self._times.append(now)
            self._powers.append(power)
            self._end.wait(self._period_s)

    @property
    def written(self) -> tuple[float, ...]:
        """When readings were written, on CLOCK_MONOTONIC."""
        return tuple(self._times)

    def joules(self, t0: float, t1: float) -> float:
        """True energy between two instants of CLOCK_MONOTONIC, in J.

        Raises:
            ValueError: The waveform was not running then.
        """
        times, powers = self._times, self._powers
        if not times or t0 < times[0]:
            raise ValueError("the waveform began after t0")
        first = bisect.bisect_right(times, t0) - 1
        total, at = 0.0, t0
        for index in range(first, len(times)):
            until = times[index + 1] if index + 1 < len(times) else t1
            if until > at:
                total += powers[index] * (min(until, t1) - at)
                at = min(until, t1)
            if at >= t1:
                break
        return total

    def watts(self, t0: float, t1: float) -> float:
        """True mean power between two instants, in W."""
        return self.joules(t0, t1) / (t1 - t0)

    def __enter__(self) -> "Waveform":
        self._thread.start()
        while not self._times:
            time.sleep(0.001)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
