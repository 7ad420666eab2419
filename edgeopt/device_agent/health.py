"""`health`: what `device check` looks at besides the probe. Read, never changed."""

import os
import time

import machine


def health(job):
    """What changes with time: `state` as measurements see it, memory, disk, load a processor.

    Arguments: window_s, over which busy processors are watched.
    """
    window_s = float(job.get("window_s", (int, float)))
    before, start = machine.state(), time.perf_counter()
    time.sleep(window_s)
    after, spent_s = machine.state(), time.perf_counter() - start
    processors = os.cpu_count() or 1
    busy = None
    if before.get("busy_s") is not None and after.get("busy_s") is not None:
        busy = (after["busy_s"] - before["busy_s"]) / spent_s / processors
    memory = machine.memory()
    return {
        "state": after,
        "processors": processors,
        "busy_share": busy,
        "memory_available_bytes": memory.get("MemAvailable"),
        "swap_used_bytes": _used(memory.get("SwapTotal"), memory.get("SwapFree")),
    }


def _used(total, free):
    return None if total is None or free is None else total - free
