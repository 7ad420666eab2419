"""`bench`: blocks of candidate and baseline in turn, with raw times and what the machine did."""

import os
import platform

import machine
import sessions
import sides


def bench(job):
    """Blocks of candidate and baseline in turn: A B, B A, A B, ..."""
    feeds = sessions.read_feeds(job.get("feeds", str))
    seconds, runs = float(job.get("min_seconds", (int, float))), job.get("min_runs", int)
    both = sides.open_sides(job, model, feeds)
    # Before a session narrows the mask: what the job was given.
    found = about(feeds)
    together = sides.fit_together(
        job.arguments.get("together", "auto"), job.arguments.get("needs_bytes") or {}
    )
    sides.alternate(both, job.get("pairs", int), lambda timed: timed.block(seconds, runs), together)
    found.update((side.name, side.reply()) for side in both)
    return dict(found, together=together)


def about(feeds):
    """What a reader of the times must know."""
    return {
        "processors": machine.processors(),
        "python": platform.python_version(),
        "runtime": sessions.import_runtime().__version__,
        "governor": machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "feeds": len(feeds),
    }


def model(job, name):
    """The path of a model that the job names."""
    return os.path.abspath(job.get(name, str))
