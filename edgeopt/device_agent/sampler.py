"""Reads one sensor at fixed times in a process of its own, so that the runs do not wait for it.

The parent (`Sampler`) starts it, and gets all readings when it stops it; stamps are the machine's
CLOCK_MONOTONIC, in the middle of each reading. Times are jittered: at fixed ones a load that
repeats itself would always be met in the same phase.
"""

import json
import os
import random
import select
import statistics
import subprocess
import sys
import time

import affinity
import channel
import machine
import sensors

_START = "import sys; sys.path.insert(0, sys.argv[1]); import sampler; sampler.main()"
_JITTER = 0.25
_NICE = 5
_EVENTS = 50
_SEARCH_S = 0.5
_READY_S = 60.0


class NotStartedError(Exception):
    """The sampling process did not start: it says so, and no candidate is to blame."""


class Sampler(object):
    """The sampling process, as its parent sees it.

    Args:
        sensor: Name of the sensor.
        rate_hz: Readings a second.
        core: Where it is pinned; None leaves it to the system.

    Raises:
        NotStartedError: With its last words.
    """

    def __init__(self, sensor, rate_hz, core):
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, os.path.abspath(sys.argv[0])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        request = {"sensor": sensor, "rate_hz": rate_hz, "core": core}
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode("utf-8"))
            self._process.stdin.flush()
            ready, _, _ = select.select([self._process.stdout], [], [], _READY_S)
            started = bool(ready and self._process.stdout.readline())
        except BrokenPipeError:
            started = False
        if not started:
            self._process.kill()
            self._process.wait()
            text = "the process that reads the power sensor %s did not start (exit code %s)"
            raise NotStartedError(text % (sensor, self._process.returncode))

    def stop(self):
        """End it; everything that it read. Without an answer, readings that are none."""
        said, _ = self._process.communicate()
        try:
            return json.loads(said.decode("utf-8"))
        except ValueError:
            event = {"t_s": time.monotonic(), "kind": "lost", "text": "the sampler ended by itself"}
            return {"labels": [], "t_s": [], "values": [], "read_s": None, "events": [event]}


def pick_core(busy):
    """A processor for the sampler: the slowest of those that the runs leave free.

    Args:
        busy: Processors that the runs may use.

    Returns:
        Its number. Where the runs may use all, a little core if there is one, and otherwise None:
        the system then finds a place by itself.
    """
    allowed = set(affinity.initial())
    text = "/sys/devices/system/cpu/cpu%d/cpu_capacity"
    speed = {core: int(machine.read(text % core) or 0) for core in allowed}
    free = allowed - set(busy)
    if not free and len(set(speed.values())) < 2:
        return None
    return min(free or allowed, key=lambda core: (speed[core], -core))


def main():
    """The process: a request, the word that it is ready, readings until stdin ends."""
    channel.die_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    _stand_aside(request["core"])
    reader = _Reader(request["sensor"])
    answers.write("ready\n")
    answers.flush()
    reader.run(request["rate_hz"])
    json.dump(reader.reply(), answers)
    answers.flush()


def _stand_aside(core):
    try:
        os.nice(_NICE)
        if core is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {core})
    except OSError:
        pass  # A processor that was switched off meanwhile: readings come all the same.


class _Reader(object):
    """The readings so far, and what went wrong with others."""

    def __init__(self, name):
        self._name = name
        self._searched = 0.0
        self._times, self._values, self._took, self._events = [], [], [], []
        self._sensor = sensors.named(name)
        self._labels = self._sensor.total if self._sensor else []

    def run(self, rate_hz):
        """Read until stdin ends."""
        period, random_source = 1.0 / rate_hz, random.Random(0)
        due = time.monotonic()
        while True:
            wait = due + random_source.uniform(-_JITTER, _JITTER) * period - time.monotonic()
            if select.select([sys.stdin], [], [], max(0.0, wait))[0]:
                return
            self._sample()
            # Late readings are not caught up with: a burst of them says nothing new.
            due = max(due + period, time.monotonic())

    def reply(self):
        """What goes to the parent."""
        return {
            "labels": self._labels,
            "t_s": self._times,
            "values": self._values,
            "read_s": statistics.median(self._took) if self._took else None,
            "events": self._events,
        }

    def _sample(self):
        begin = time.monotonic()
        values = self._read()
        end = time.monotonic()
        self._times.append(round((begin + end) / 2, 6))
        self._took.append(end - begin)
        self._values.append(values)

    def _read(self):
        if self._sensor is None:
            return self._again()
        try:
            found = self._sensor.read()
            return [round(found[label], 9) for label in self._labels]
        except OSError as error:
            self._event("lost", error)
            return self._again()
        except (ValueError, KeyError) as error:
            self._event("invalid", error)
            return None

    def _again(self):
        """Look for the sensor anew: a driver that was loaded again has another number."""
        now = time.monotonic()
        if now - self._searched < _SEARCH_S:
            return None
        self._searched = now
        found = sensors.named(self._name)
        if found is None or found.total != self._labels:
            self._sensor = None
            return None
        self._sensor = found
        self._event("renumbered", "the rails were found again by their labels")
        try:
            values = found.read()
        except (OSError, ValueError):
            return None
        return [round(values[label], 9) for label in self._labels]

    def _event(self, kind, text):
        if len(self._events) < _EVENTS:
            self._events.append({"t_s": time.monotonic(), "kind": kind, "text": str(text)})
