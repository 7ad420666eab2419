"""`pace`: inference at the user's rate, as a camera or a control loop asks for it.

Periods start at fixed times. A run begins when its period starts, or as soon as the run before
has ended; the newest input waits in a buffer of one, older ones are dropped. A period is missed
when its result is not there at the start of the next one, which a dropped one never is.
"""

import gc
import time

import bench
import machine
import sessions
import sides
import timing


def pace(job):
    """Windows of paced inference of candidate and baseline in turn."""
    feeds = sessions.read_feeds(job.get("feeds", str))
    rate_hz, periods = float(job.get("rate_hz", (int, float))), job.get("periods", int)
    both = sides.open_sides(job, bench.model, feeds)
    found = bench.about(feeds)
    together = sides.fit_together(
        job.arguments.get("together", "auto"), job.arguments.get("needs_bytes") or {}
    )
    sides.alternate(
        both, job.get("pairs", int), lambda timed: window(timed, rate_hz, periods), together
    )
    found.update((side.name, side.reply()) for side in both)
    return dict(found, together=together)


def window(timed, rate_hz, periods, clock=time.perf_counter, sleep=time.sleep):
    """One window.

    Returns:
        times_s from the start of a period to its result (waiting included), missed, periods,
        cpu_s and wall_s of the window, and the machine's state.
    """
    before = machine.state()
    enabled = gc.isenabled()
    gc.disable()
    try:
        cpu, wall = time.process_time(), clock()
        times, missed = run_periods(timed, rate_hz, periods, clock, sleep)
        wall, cpu = clock() - wall, time.process_time() - cpu
    except Exception as error:  # the runtime's errors have no common class
        raise sessions.runtime_failure("run_failed", error) from error
    finally:
        if enabled:
            gc.enable()
    found = {"times_s": times, "missed": missed, "periods": periods, "wall_s": wall, "cpu_s": cpu}
    return dict(timing.between(before, machine.state()), **found)


def run_periods(timed, rate_hz, periods, clock=time.perf_counter, sleep=time.sleep):
    """Run in periods; seconds from the start of each served one to its result, and misses."""
    period = 1.0 / rate_hz
    times, missed, number = [], 0, 0
    begin = clock()
    while number < periods:
        due = begin + number * period
        wait = due - clock()
        if wait > 0:
            sleep(wait)
        timed.once(number)
        late = clock() - due
        times.append(round(late, 9))
        step = max(1, int(late / period))
        missed += int(late > period) + min(step, periods - number) - 1
        number += step
    return times, missed
