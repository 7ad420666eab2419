"""`energy`: a pass of its own in which power is read while one model runs. Never a timed one.

Idle windows with the session loaded lie before, between and after windows of back-to-back runs
(or of runs at a rate). What is sent back are raw readings and the instants of the windows, on
CLOCK_MONOTONIC; `edgeopt.measure.energy` makes joules of them. Untried on hardware.
"""

import gc
import math
import os
import time

import bench
import machine
import pace
import sampler
import sensors
import sessions
import sides
import timing

_POWER_HZ, _COUNTER_HZ = 20.0, 50.0
_LONGEST = 3.0  # times the window, for models of which the wanted number of runs takes too long
_GPU_PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider")


def energy(job):
    """Raw readings of a model at work.

    Arguments: model, feeds, settings, warmup as in `bench`; sensors (names by preference),
    window_s, counter_window_s (for sensors that count joules), idle_s, settle_s, blocks,
    min_runs, min_updates; rate_hz (None: back to back); external (a meter on the host reads).

    Returns:
        sensor (None with a `reason` where nothing can be read), sampling_hz, samples, blocks
        with idle_before, busy, idle_after as [t0, t1], runs, missed, state.
    """
    settings = job.get("settings", dict)
    external = bool(job.arguments.get("external"))
    sensor, reason = None, ""
    if not external:
        sensor, reason = sensors.choose(job.arguments.get("sensors") or (), _gpu(settings))
        if sensor is None:
            return {"sensor": None, "reason": reason}
    feeds = sessions.read_feeds(job.get("feeds", str))
    found = bench.about(feeds)
    side = sides.Side(
        job, "candidate", bench.model(job, "model"), settings, feeds, job.get("warmup", dict)
    )
    side.open(0)
    side.warm_up()
    windows = _Windows(job, side.timed, len(feeds), _window_s(job, sensor))
    if external:
        found.update(sensor=None, reason="", sampling_hz=None, samples=None, blocks=windows.run())
    else:
        rate_hz = min(sensor.max_hz, _COUNTER_HZ if sensor.kind == "counter" else _POWER_HZ)
        try:
            reader = sampler.Sampler(sensor.name, rate_hz, sampler.pick_core(_processors()))
        except sampler.NotStartedError as error:
            return {"sensor": None, "reason": str(error)}
        try:
            blocks = windows.run()
        finally:
            samples = reader.stop()
        found.update(sensor=sensor.describe(), reason="", sampling_hz=rate_hz)
        found.update(samples=samples, blocks=blocks)
    return dict(found, candidate=side.reply())


def _gpu(settings):
    """The GPU that the runs use, as the provider counts; None where they use none."""
    if settings.get("provider") not in _GPU_PROVIDERS:
        return None
    number = str((settings.get("options") or {}).get("device_id", ""))
    return int(number) if number.isdigit() else 0


def _processors():
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()


def _window_s(job, sensor):
    """How long runs last: longer where the sensor is so slow that it would say too little."""
    window_s = float(job.get("window_s", (int, float)))
    if sensor is None:
        return window_s
    if sensor.kind == "counter":
        return float(job.arguments.get("counter_window_s") or window_s)
    updates = float(job.arguments.get("min_updates") or 0)
    return max(window_s, updates / min(sensor.max_hz, _POWER_HZ))


class _Windows(object):
    """Idle, busy, idle, busy, ..., idle."""

    def __init__(self, job, timed, feeds, window_s):
        self._job = job
        self._timed = timed
        self._feeds = feeds
        self._window_s = window_s
        self._idle_s = float(job.get("idle_s", (int, float)))
        self._settle_s = float(job.arguments.get("settle_s") or 0.0)
        self._min_runs = int(job.arguments.get("min_runs") or 1)
        self._rate_hz = job.arguments.get("rate_hz")

    def run(self):
        """The blocks."""
        blocks = []
        idle = self._idle()
        for _ in range(self._job.get("blocks", int)):
            self._job.phase("run candidate")
            before = machine.state()
            block = self._busy()
            block["state"] = timing.between(before, machine.state())
            block["idle_before"], idle = idle, self._idle()
            block["idle_after"] = idle
            blocks.append(block)
        return blocks

    def _idle(self):
        """Nothing runs, but the session is loaded: its memory and contexts cost power too."""
        time.sleep(self._settle_s)
        begin = time.monotonic()
        time.sleep(self._idle_s)
        return [begin, time.monotonic()]

    def _busy(self):
        enabled = gc.isenabled()
        gc.disable()
        try:
            begin = time.monotonic()
            runs, missed = self._paced() if self._rate_hz else self._back_to_back()
            end = time.monotonic()
        except Exception as error:  # the runtime's errors have no common class
            raise sessions.runtime_failure("run_failed", error) from error
        finally:
            if enabled:
                gc.enable()
        return {"busy": [begin, end], "runs": runs, "missed": missed}

    def _paced(self):
        periods = int(math.ceil(self._window_s * self._rate_hz))
        times, missed = pace.run_periods(self._timed, float(self._rate_hz), periods)
        # The window ends where the last period does, not where its run does.
        time.sleep(max(0.0, 1.0 / self._rate_hz - times[-1]) if times else 0.0)
        return len(times), missed

    def _back_to_back(self):
        """Whole rotations of the samples, so that every block holds the same mix."""
        clock, once = time.monotonic, self._timed.once
        begin, runs = clock(), 0
        while True:
            once(runs)
            runs += 1
            if runs % self._feeds:
                continue
            spent = clock() - begin
            if spent >= self._window_s * _LONGEST:
                break
            if spent >= self._window_s and runs >= self._min_runs:
                break
        return runs, 0
