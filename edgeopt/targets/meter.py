"""An external power meter on this host, beside any device: `meter` of a device's entry.

A meter is a command that prints a line a reading, or a file that something else writes: `t_s,watts`
(comma, semicolon or space), a header is skipped. `t_s` is Unix time, this host's CLOCK_MONOTONIC,
or for a command any clock in seconds; a command may print `watts` alone. Untried with a real meter.
"""

import itertools
import math
import re
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError, MeterError

_UNIX_S = 1e9
"""Stamps from here on are Unix time (since 2001); no machine has been up for so long."""
_SAME_CLOCK_S = 5.0
_FIRST_S = 20.0
_WORDS = 500
_FIRST_COUNT = 3
_EXCHANGES = 9
_CLOCK_DEADLINE_S = 20.0
_BETWEEN = re.compile(r"[\s,;]+")
_END_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a meter: when it came (host's CLOCK_MONOTONIC), its stamp, and its watts."""

    arrival_s: float
    stamp_s: float | None
    watts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How far the device's clock is ahead of this host's, and how well that is known, in s."""

    host_s: float
    offset_s: float
    error_s: float


def parse(text: str, arrival_s: float) -> Line | None:
    """A line of a meter; None for a header or anything else that is no reading."""
    try:
        numbers = [float(word) for word in _BETWEEN.split(text.strip())[:2]]
    except ValueError:
        return None
    if not all(map(math.isfinite, numbers)):
        return None
    stamp = numbers[0] if len(numbers) == 2 else None
    return Line(arrival_s=arrival_s, stamp_s=stamp, watts=numbers[-1])


def host_times(lines: Sequence[Line], *, unix_s: float, live: bool) -> list[float]:
    """When the readings were taken, on this host's CLOCK_MONOTONIC.

    Args:
        lines: In their order.
        unix_s: Unix time less CLOCK_MONOTONIC, of this host.
        live: The lines' arrivals mean something. A clock of the meter's own is then placed so
            that no reading arrives before it was taken, and the fastest one at once.
    """
    stamped = [line for line in lines if line.stamp_s is not None]
    if not stamped:
        return [line.arrival_s for line in lines]
    shift = 0.0
    late = [line.arrival_s - cast("float", line.stamp_s) for line in stamped]
    if statistics.median(cast("float", line.stamp_s) for line in stamped) >= _UNIX_S:
        shift = -unix_s
    elif live and abs(min(late)) > _SAME_CLOCK_S:
        shift = min(late)
    return [line.arrival_s if line.stamp_s is None else line.stamp_s + shift for line in lines]


class Meter:
    """A running meter.

    Args:
        command: A command, or the path of a file.
        where: The device, for messages.

    Raises:
        MeterError: The command cannot be started.
    """

    def __init__(self, command: str, *, where: str) -> None:
        self._command, self._where = command, where
        self._lines: list[Line] = []
        self._strange = 0
        self._path = Path(command).expanduser()
        self.live = not self._path.is_file()
        self._process: subprocess.Popen[bytes] | None = None
        self._words = ""
        if self.live:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the meter)
            self._start()

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                shlex.split(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
            )
        except (OSError, ValueError) as error:
            self._log.close()
            raise MeterError(
                f"the power meter cannot be started: {error}",
                where=f"{self._where} (meter {self._command!r})",
                hint="name a command that prints lines of t_s,watts, or a file with them",
            ) from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for raw in cast("Any", self._process).stdout:
            self._take(raw.decode("utf-8", "replace"), time.monotonic())

    def _take(self, text: str, arrival_s: float) -> None:
        line = parse(text, arrival_s)
        if line is not None:
            self._lines.append(line)
        elif text.strip() and self._lines:
            self._strange += 1

    def rate_hz(self) -> float | None:
        """Readings a second, from its first ones; None for a file, which may grow later.

        Raises:
            MeterError: There are none in twenty seconds.
        """
        if not self.live:
            return None
        end = time.monotonic() + _FIRST_S
        while len(self._lines) < _FIRST_COUNT:
            ended = not self._reader.is_alive() and len(self._lines) < _FIRST_COUNT
            if ended or time.monotonic() > end:
                self.stop()
                how = "ended" if ended else f"gave no {_FIRST_COUNT} readings in {_FIRST_S:g} s"
                how += f"; its last words: {self._words}" * bool(self._words)
                raise MeterError(
                    f"the power meter {how}",
                    where=f"{self._where} (meter {self._command!r})",
                    hint="run the command by hand: it must print lines of t_s,watts at once "
                    "(without a buffer), as long as it runs",
                )
            time.sleep(0.02)
        first = self._lines[:_FIRST_COUNT]
        return (_FIRST_COUNT - 1) / max(first[-1].arrival_s - first[0].arrival_s, 1e-3)

    def stop(self) -> tuple[list[tuple[float, float]], int]:
        """End it: (host's CLOCK_MONOTONIC, watts) in order of time, and how many lines were none.

        Raises:
            MeterError: The file cannot be read.
        """
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._reader.join()
            cast("Any", self._process.stdout).close()
            self._process = None
            self._log.seek(0)
            self._words = self._log.read()[-_WORDS:].decode("utf-8", "replace").strip()
            self._log.close()
        elif not self.live:
            try:
                text = self._path.read_text()
            except OSError as error:
                raise MeterError(
                    f"the meter's file cannot be read: {error.strerror}", where=str(self._path)
                ) from error
            for line in text.splitlines():
                self._take(line, time.monotonic())
        times = host_times(self._lines, unix_s=time.time() - time.monotonic(), live=self.live)
        pairs = [(t, line.watts) for t, line in zip(times, self._lines, strict=True)]
        return sorted(pairs), self._strange


def read_clock(target: Target) -> Clock:
    """The device's clock against this host's: of several exchanges the one that took least.

    Raises:
        DeviceError: The device does not answer.
    """
    best: Clock | None = None
    for _ in range(_EXCHANGES):
        before = time.monotonic()
        reply = target.request("clock", deadline_s=_CLOCK_DEADLINE_S)
        after = time.monotonic()
        if not reply["ok"]:
            raise DeviceError("the device does not tell its clock", where=target.name)
        middle, error = (before + after) / 2, (after - before) / 2
        if best is None or error < best.error_s:
            offset = float(reply["monotonic_s"]) - middle
            best = Clock(host_s=middle, offset_s=offset, error_s=error)
    return cast("Clock", best)


class MeteredTarget:
    """A device whose power a meter on this host reads. Implements `core.protocols.Target`.

    Args:
        target: The device; closed with this.
        command: Of the meter, see the module.
        scope: What the meter sees: `board`, `module`, `package`, `wall`.
    """

    def __init__(self, target: Target, *, command: str, scope: str) -> None:
        self._target, self._command, self._scope = target, command, scope

    @property
    def name(self) -> str:
        """The device's name."""
        return self._target.name

    def put(self, path: Path) -> str:
        """See `core.protocols.Target`."""
        return self._target.put(path)

    def fetch(self, place: str) -> Path:
        """See `core.protocols.Target`."""
        return self._target.fetch(place)

    def close(self) -> None:
        """See `core.protocols.Target`."""
        self._target.close()

    def request(self, verb: str, *, deadline_s: float, **arguments: Any) -> Mapping[str, Any]:
        """The device's reply; `energy` gets the meter's readings, on the device's clock.

        Raises:
            MeterError: The meter does not work.
        DeviceError: Of the device.
        """
        if verb != "energy":
            return self._target.request(verb, deadline_s=deadline_s, **arguments)
        before = read_clock(self._target)
        meter = Meter(self._command, where=self.name)
        try:
            rate_hz = meter.rate_hz()
            if rate_hz is not None:
                updates = float(arguments.get("min_updates") or 0.0)
                slow = updates / max(rate_hz, 1.0)
                arguments["window_s"] = max(float(arguments["window_s"]), slow)
            arguments["external"] = True
            reply = self._target.request(verb, deadline_s=deadline_s, **arguments)
        finally:
            pairs, strange = meter.stop()
        if not reply["ok"]:
            return reply
        return filled(reply, pairs, (before, read_clock(self._target)), self._scope, strange)


def filled(
    reply: Mapping[str, Any],
    pairs: Sequence[tuple[float, float]],
    clocks: tuple[Clock, Clock],
    scope: str,
    strange: int = 0,
) -> Mapping[str, Any]:
    """A reply of `energy` with a meter's readings in place of a sensor's.

    Args:
        reply: With the windows.
        pairs: Host's CLOCK_MONOTONIC and watts.
        clocks: Before and after; what drifts between them is taken as even.
        scope: Of the meter.
        strange: Lines that were no reading.
    """
    first, last = clocks
    span = max(last.host_s - first.host_s, 1e-6)
    drift = (last.offset_s - first.offset_s) / span
    start, end = reply["blocks"][0]["idle_before"][0], reply["blocks"][-1]["idle_after"][1]
    placed = [(t + first.offset_s + drift * (t - first.host_s), watts) for t, watts in pairs]
    inside = [(t, watts) for t, watts in placed if start - 60 <= t <= end + 60]
    pauses = [late[0] - early[0] for early, late in itertools.pairwise(inside)]
    period = statistics.median(pauses) if pauses else 0.0
    if sum(start <= t <= end for t, _ in inside) < _FIRST_COUNT or period <= 0:
        reason = "the meter gave no readings while the model ran (are its stamps seconds?)"
        return {**reply, "sensor": None, "reason": reason}
    events = [{"t_s": start, "kind": "invalid", "text": f"{strange} lines were no reading"}]
    return {
        **reply,
        "sensor": {
            "name": "meter",
            "scope": scope,
            "kind": "power",
            "labels": ["meter"],
            "total": ["meter"],
            "resolution": {"meter": None},
            "ranges_j": {},
            "max_hz": 1 / period,
            "gain": None,
            "note": "external meter read by the host; its own error is not known here",
            "clock_error_s": max(first.error_s, last.error_s),
        },
        "sampling_hz": 1 / period,
        "samples": {
            "labels": ["meter"],
            "t_s": [t for t, _ in inside],
            "values": [[watts] for _, watts in inside],
            "events": events if strange else [],
        },
    }


def metered(target: Target, *, command: str, scope: str) -> Target:
    """The device with its meter, or as it is where `command` is empty."""
    return MeteredTarget(target, command=command, scope=scope) if command else target
