"""`idle`: wait until the machine has nothing else to do, or has cooled, and say what was seen."""

import os
import time

import machine

_POLL_S = 0.5
_GPU_BUSY = 0.10


def idle(job):
    """Wait until the machine is as asked, at most `at_most_s`; both demands may be left out.

    Arguments: at_most_s; window_s, over which processors are watched; busy_share, the share of
    processor time that may be used; below_c, the temperature to wait for.
    """
    at_most_s = float(job.get("at_most_s", (int, float)))
    window_s = float(job.arguments.get("window_s") or 0.0)
    busy_share, below_c = job.arguments.get("busy_share"), job.arguments.get("below_c")
    job.phase("wait")
    begin = time.perf_counter()
    while True:
        seen = look(window_s)
        reached = is_reached(seen, busy_share, below_c)
        waited_s = time.perf_counter() - begin
        if reached or waited_s >= at_most_s:
            return dict(seen, idle=reached, waited_s=waited_s)
        if not window_s:
            time.sleep(min(_POLL_S, at_most_s))


def look(window_s):
    """What the machine does during a window; the share of busy processor time is None for 0 s."""
    before, start = machine.state(), time.perf_counter()
    time.sleep(window_s)
    after, spent_s = machine.state(), time.perf_counter() - start
    share = None
    if window_s and before["busy_s"] is not None and after["busy_s"] is not None:
        share = (after["busy_s"] - before["busy_s"]) / spent_s / (os.cpu_count() or 1)
    return {
        "busy_share": share,
        "load": after["load"],
        "gpu_busy": after.get("gpu_busy"),
        "temperature_c": after["temperature_c"],
        "processors": os.cpu_count(),
    }


def is_reached(seen, busy_share, below_c):
    """Whether what was seen is as asked; what this machine does not tell is not waited for."""
    if busy_share is not None:
        if seen["busy_share"] is not None and seen["busy_share"] > busy_share:
            return False
        if seen["gpu_busy"] is not None and seen["gpu_busy"] > _GPU_BUSY:
            return False
    heat = seen["temperature_c"]
    return below_c is None or heat is None or heat <= below_c
