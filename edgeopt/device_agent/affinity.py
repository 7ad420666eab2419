"""On which processors a session runs: a mask of the calling thread, inherited by new threads.

Linux keeps the mask for each thread and a new thread takes its maker's. The runtime makes its
threads when a session is opened, so `apply` goes before that; the caller computes too, so it goes
again before the session is timed, where two sessions of one process have different settings.
"""

import os

from failures import JobError

_ALL = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def initial():
    """The processors that this process was given when it started; empty where unknown.

    A process that must not share the candidate's processors (a power sampler) sets these for
    itself, since it inherits the mask of the thread that starts it.
    """
    return _ALL


def apply(settings):
    """Put the calling thread on `settings["affinity"]`, or back on all that it was given.

    Returns:
        How many processors that are; None where this system has no masks.

    Raises:
        JobError: `bad_request` for what is no list of numbers; `load_failed` for a processor
            that this process may not use, or a system without masks.
    """
    wanted = settings.get("affinity") or ()
    if not isinstance(wanted, (list, tuple)) or not all(_is_number(each) for each in wanted):
        raise JobError("bad_request", "affinity is a list of processor numbers: %r" % (wanted,))
    if not _ALL:
        if wanted:
            raise JobError("load_failed", "this system cannot put a process on processors")
        return None
    missing = sorted(set(wanted) - _ALL)
    if missing:
        raise JobError(
            "load_failed",
            "processor %s is not there: this process may use %s" % (_words(missing), _words(_ALL)),
            "choose others, or lift the limit (taskset, cpuset) that the agent runs under",
        )
    chosen = set(wanted) or set(_ALL)
    os.sched_setaffinity(0, chosen)
    return len(chosen)


def _is_number(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _words(numbers):
    return ", ".join(str(number) for number in sorted(numbers))
