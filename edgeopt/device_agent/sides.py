"""Candidate and baseline in one process: both open at once, or in turn where memory is short."""

import gc

import affinity
import engines
import machine
import timing

NAMES = ("candidate", "baseline")
# Memory that must stay free beside both: pages that the system drops to make room slow the runs.
_SPARE = 1.25


class Side(object):
    """One of the two sessions: how it is opened, and what was seen of it.

    Args:
        job: The job, told what comes next.
        name: `candidate` or `baseline`.
        path: The model file.
        settings: Of the session.
        feeds: Samples, at least one.
        warmup: floor_s, floor_runs, cap_s, tolerance.
    """

    def __init__(self, job, name, path, settings, feeds, warmup):
        self._job = job
        self.name = name
        self._path = path
        self._settings = settings
        self._feeds = feeds
        self._warmup = warmup
        # Engines of one model differ from build to build: a round that builds its own lets the
        # interval over rounds contain that. Sessions that are opened in turn share the round's.
        self._engine = job.arguments.get("engine", "cached")
        self._fresh = {}
        self._build_s = []
        self._warm = []
        self.timed = None
        self.blocks = []
        self._facts = {}
        self._batch = 1

    def open(self, position):
        """Open the session; the first time counts as its load.

        Args:
            position: How many sessions this process had opened before.
        """
        self._job.phase("load " + self.name)
        processors = affinity.apply(self._settings)
        session, opened = engines.opened(
            self._path, self._settings, self._engine, self._feeds[0], self._fresh
        )
        engine = opened["engine"]
        if engine and engine["builds"]:
            self._build_s.append(engine["build_s"])
        self.timed = timing.Timed(session, self._feeds)
        first = {
            "load_s": opened["load_s"],
            "engine": engine,
            "opened": position,
            "processors": processors,
            "providers": session.get_providers(),
        }
        for key, value in first.items():
            self._facts.setdefault(key, value)

    def warm_up(self):
        """The first run, timed, and runs until the times have settled."""
        self._job.phase("run " + self.name)
        affinity.apply(self._settings)
        self._facts.setdefault("first_run_s", self.timed.first())
        warmup = self._warmup
        self._warm.append(
            self.timed.warm_up(
                float(warmup["floor_s"]),
                int(warmup["floor_runs"]),
                float(warmup["cap_s"]),
                float(warmup["tolerance"]),
            )
        )
        self._batch = max(self._batch, self.timed.batch)

    def measure(self, run):
        """One block: `run` is given the timed session while its processors are this side's."""
        self._job.phase("run " + self.name)
        affinity.apply(self._settings)
        self.blocks.append(run(self.timed))

    def close(self):
        """Let the session go, with its memory."""
        self.timed = None
        gc.collect()

    def reply(self):
        """Everything that was seen; an engine of its own goes.

        Of several warm-ups the one that settled least counts.
        """
        engines.let_go(self._fresh)
        worst = min(self._warm, key=lambda each: each["settled"])
        return dict(
            self._facts,
            blocks=self.blocks,
            warmup=dict(worst, runs=sum(each["runs"] for each in self._warm)),
            batch=self._batch,
            build_s=self._build_s,
        )


def open_sides(job, path_of, feeds):
    """The two sides in the order of the job's `first`; nothing is opened yet."""
    settings = {
        "candidate": job.get("settings", dict),
        "baseline": job.get("baseline_settings", dict),
    }
    warmup = job.get("warmup", dict)
    order = sorted(NAMES, key=lambda side: side != job.get("first", str))
    return [Side(job, name, path_of(job, name), settings[name], feeds, warmup) for name in order]


def alternate(sides, pairs, run, together):
    """Blocks in turn: A B, B A, A B, ... of sessions that stay, or that are opened for a block.

    Args:
        sides: In the order of opening.
        pairs: How many pairs.
        run: From a timed session to a block.
        together: Whether both sessions stay open.
    """
    opened = 0
    if together:
        for side in sides:
            side.open(opened)
            opened += 1
        for side in sides:
            side.warm_up()
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else sides[::-1]:
            if not together:
                side.open(opened)
                opened += 1
                side.warm_up()
            side.measure(run)
            if not together:
                side.close()


def fit_together(wish, needs_bytes):
    """Whether both sessions may be resident at once.

    Args:
        wish: True, False, or `auto`: decided from the memory that is free.
        needs_bytes: Peak of each of the two; nothing is decided where one is unknown.
    """
    if isinstance(wish, bool):
        return wish
    room = machine.available_bytes()
    needs = [needs_bytes.get(name) for name in NAMES]
    if room is None or None in needs:
        return True
    return sum(needs) * _SPARE <= room
