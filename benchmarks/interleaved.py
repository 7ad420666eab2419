"""Times of several models side by side: blocks in turn, in random order, in fresh processes.

    python benchmarks/interleaved.py JOB.json

One process opens a session a model, one thread each, and goes through rounds; in a round every
model runs for one block. Ratios are of blocks of one round, so what the machine does to all of
them cancels. Two sessions of one file differ by some per cent for their whole life, so the
processes are several.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.core.samples import student
from edgeopt.graph.runtime import Session

BLOCK_S = 0.04
ROUNDS = 15
PROCESSES = 3
RESAMPLES = 2000
GIVEN = "given"

Times = Mapping[str, Sequence[float]]
"""Median seconds of a run in each block, by model."""


def times(
    models: Mapping[str, tuple[Path, str]],
    feeds: Path,
    *,
    clock: str = "wall",
    rounds: int = ROUNDS,
    block_s: float = BLOCK_S,
) -> dict[str, list[list[float]]]:
    """Median run times, seconds, by model: a list a process of one number a round.

    Args:
        models: File and optimization level by name.
        feeds: An archive of inputs named `<number>/<input>`.
        clock: `wall`, or `cpu`: time of the thread that runs, for a machine that others use too.
        rounds: Blocks of each model in a process.
        block_s: Length of a block.
    """
    job = {"models": {k: [str(p), level] for k, (p, level) in models.items()}, "feeds": str(feeds)}
    job |= {"clock": clock, "rounds": rounds, "block_s": block_s}
    found: dict[str, list[list[float]]] = {name: [] for name in models}
    for seed in range(PROCESSES):
        done = subprocess.run(
            [sys.executable, __file__, json.dumps({**job, "seed": seed})],
            check=True,
            capture_output=True,
            text=True,
        )
        for name, values in json.loads(done.stdout).items():
            found[name].append(values)
    return found


def ratio(
    found: Mapping[str, list[list[float]]], name: str, seed: int = 0
) -> tuple[float, float, float]:
    """How many times faster than the given model: median over rounds and processes, 95 % interval.

    Processes are resampled first, then rounds: rounds of one process share its luck.
    """
    logs = [
        np.log(np.array(given) / np.array(other))
        for given, other in zip(found[GIVEN], found[name], strict=True)
    ]
    generator = np.random.default_rng(seed)
    drawn = [
        float(
            np.mean(
                [
                    np.median(generator.choice(logs[i], size=len(logs[i])))
                    for i in generator.integers(len(logs), size=len(logs))
                ]
            )
        )
        for _ in range(RESAMPLES)
    ]
    middle = float(np.mean([np.median(one) for one in logs]))
    # From three processes the percentile bootstrap is too narrow: see `core.samples`.
    widen = student(len(logs) - 1) / student(None)
    low, high = (middle + (end - middle) * widen for end in np.quantile(drawn, [0.025, 0.975]))
    return float(np.exp(middle)), float(np.exp(low)), float(np.exp(high))


def held_feeds(path: Path) -> list[Feed]:
    """Feeds of an archive."""
    feeds: dict[int, dict[str, np.ndarray]] = {}
    with np.load(path) as held:
        for key in held.files:
            number, name = key.split("/", 1)
            feeds.setdefault(int(number), {})[name] = held[key]
    return [feeds[number] for number in sorted(feeds)]


def _measure(job: Mapping[str, object]) -> dict[str, list[float]]:
    models: Mapping[str, Sequence[str]] = job["models"]  # type: ignore[assignment]
    feeds = held_feeds(Path(str(job["feeds"])))
    generator = np.random.default_rng(int(str(job["seed"])))
    names = list(models)
    generator.shuffle(names)
    sessions = {
        name: Session(
            Path(models[name][0]), RuntimeSettings(threads=1, optimization=models[name][1])
        )
        for name in names
    }
    for session in sessions.values():
        for feed in feeds:
            session.run(feed)
    found: dict[str, list[float]] = {name: [] for name in models}
    clock = time.thread_time if job.get("clock") == "cpu" else time.perf_counter
    block_s = float(str(job.get("block_s", BLOCK_S)))
    for _ in range(int(str(job.get("rounds", ROUNDS)))):
        generator.shuffle(names)
        for name in names:
            found[name].append(block(sessions[name], feeds, clock, block_s))
    return found


def block(
    session: Session, feeds: Sequence[Feed], clock: Callable[[], float], block_s: float = BLOCK_S
) -> float:
    """Median seconds of a run; every feed at least once, so that blocks are alike."""
    taken: list[float] = []
    end = clock() + block_s
    while len(taken) < len(feeds) or clock() < end:
        feed = feeds[len(taken) % len(feeds)]
        start = clock()
        session.run(feed)
        taken.append(clock() - start)
    return float(np.median(taken))


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
