"""`health`: what `device check` looks at besides the probe. Read, never changed."""

import os
import platform
import shutil
import sys
import time

import boardlock
import cache
import machine
from failures import JobError


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
    named = os.environ.get("EDGEOPT_CACHE")
    return {
        "executable": sys.executable,
        "python": platform.python_version(),
        "cache": named,
        "cache_free_bytes": _free(cache.folder()) if named else None,
        "state": after,
        "measuring": _measuring(),
        "processors": processors,
        "busy_share": busy,
        "memory_available_bytes": memory.get("MemAvailable"),
        "swap_used_bytes": _used(memory.get("SwapTotal"), memory.get("SwapFree")),
    }


def _measuring():
    """Who measures on this board right now, as a sentence; None where nobody does."""
    try:
        with boardlock.held(cache.folder(), boardlock.owner(), 0):
            return None
    except JobError as error:
        return error.text.partition(", also after")[0]


def _free(folder):
    """Free bytes of a folder in which a file can be written; None where that is refused."""
    if folder is None:
        return None
    trial = os.path.join(folder, ".part-health-%d" % os.getpid())
    try:
        open(trial, "w").close()
        os.remove(trial)
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _used(total, free):
    return None if total is None or free is None else total - free
