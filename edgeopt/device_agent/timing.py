"""Warm-up by evidence, and blocks of timed runs. Nothing but the runs is inside the timer."""

import gc
import statistics
import time

import machine
import sessions

# Runs shorter than this are timed in batches, so that clock and call cost stay below a per cent;
# the values of a block are then means of a batch.
_BATCH_BELOW_S = 0.0002
_BATCH_S = 0.0005


def between(before, after):
    """What the machine did from one state to another: counters as differences, the rest as it is.

    `throttle` holds the counters that rose; None where this machine has none.
    """
    found = dict(after)
    for key in ("busy_s", "swapped_pages"):
        known = before[key] is not None and after[key] is not None
        found[key] = after[key] - before[key] if known else None
    found["throttle"] = _risen(before.get("throttle"), after.get("throttle"))
    return found


def _risen(before, after):
    """Counters that are larger than before, with the difference; unknown ones do not count."""
    if before is None or after is None:
        return None
    found = {}
    for name, value in after.items():
        if value is not None and before.get(name) is not None and value > before[name]:
            found[name] = value - before[name]
    return found


class Timed(object):
    """One open session with its feeds, and how it is timed.

    Args:
        session: Open.
        feeds: Rotated, at least one.
    """

    def __init__(self, session, feeds):
        self._session = session
        self._feeds = feeds
        self.batch = 1
        # Inputs of unequal shapes cost unequal times: a block then holds whole rotations, so
        # that both models see the same mix.
        shapes = {tuple(sorted((k, v.shape) for k, v in feed.items())) for feed in feeds}
        self._step = len(feeds) if len(shapes) > 1 else 1

    def warm_up(self, floor_s, floor_runs, cap_s, tolerance):
        """Run until the medians of the last two windows agree, or the cap is reached.

        A window is half of the floor, at least three runs. Sets the batch size from the last one.

        Returns:
            runs, seconds, settled, medians of the windows.
        """
        begin = time.perf_counter()
        medians, runs = [], 0
        settled = False
        while not settled:
            window = self._values(floor_s / 2, 3, 1)
            runs += len(window)
            medians.append(statistics.median(window))
            spent = time.perf_counter() - begin
            if runs >= floor_runs and len(medians) > 1 and spent >= floor_s:
                settled = abs(medians[-1] - medians[-2]) <= tolerance * medians[-2]
            if spent >= cap_s:
                break
        if medians[-1] < _BATCH_BELOW_S:
            self.batch = max(1, int(_BATCH_S / medians[-1]) + 1)
        return {
            "runs": runs,
            "seconds": time.perf_counter() - begin,
            "settled": settled,
            "medians_s": medians,
        }

    def block(self, min_seconds, min_runs):
        """One block: raw times, processor time and wall time, and what else the machine did."""
        before = machine.state()
        cpu, wall = time.process_time(), time.perf_counter()
        times = self._values(min_seconds, min_runs, self.batch)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        found = {"times_s": times, "wall_s": wall, "cpu_s": cpu}
        return dict(between(before, machine.state()), **found)

    def once(self, number):
        """One inference on a sample of that number, outputs dropped."""
        self._session.run(None, self._feeds[number % len(self._feeds)])

    def first(self):
        """Seconds of the first inference of the session.

        Raises:
            JobError: `run_failed` or `oom`.
        """
        start = time.perf_counter()
        sessions.run_once(self._session, self._feeds[0])
        return time.perf_counter() - start

    def _values(self, min_seconds, min_runs, batch):
        """Seconds of a run, one value a batch, for at least that long and that many runs."""
        feeds, run, clock = self._feeds, self._session.run, time.perf_counter
        count, step = len(feeds), self._step
        values = []
        done = 0
        enabled = gc.isenabled()
        gc.disable()
        try:
            end = clock() + min_seconds
            while done < min_runs or done % step or clock() < end:
                chosen = [feeds[(done + index) % count] for index in range(batch)]
                start = clock()
                outputs = [run(None, feed) for feed in chosen]
                values.append((clock() - start) / batch)
                del outputs
                done += batch
        except Exception as error:  # the runtime's errors have no common class
            raise sessions.runtime_failure("run_failed", error) from error
        finally:
            if enabled:
                gc.enable()
        return [round(value, 9) for value in values]
