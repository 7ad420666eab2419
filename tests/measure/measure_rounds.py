"""Replies of `bench` as values, for tests of what is computed from them."""

from typing import Any

import numpy as np

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.measure.raw import RawRun, Side

SETTINGS: dict[Side, RuntimeSettings] = {
    "candidate": RuntimeSettings(),
    "baseline": RuntimeSettings(),
}


def block(median: float = 0.001, runs: int = 40, **changed: Any) -> dict[str, Any]:
    """A block of equal times on a quiet machine of four processors."""
    found: dict[str, Any] = {
        "times_s": [median] * runs,
        "wall_s": median * runs,
        "cpu_s": median * runs,
        "busy_s": median * runs,
        "swapped_pages": 0,
        "load": 0.1,
        "temperature_c": 50.0,
        "clock_hz": 2e9,
    }
    return {**found, **changed}


def bench(
    candidate: list[dict[str, Any]], baseline: list[dict[str, Any]], **changed: Any
) -> dict[str, Any]:
    """The reply of one round."""

    def side(blocks: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "blocks": blocks,
            "warmup": {"runs": 7, "medians_s": [0.001, 0.001]},
            "batch": 1,
            "providers": ["CPUExecutionProvider"],
        }

    found: dict[str, Any] = {
        "candidate": side(candidate),
        "baseline": side(baseline),
        "processors": 4.0,
        "python": "3.11.0",
        "runtime": "1.32.0",
        "governor": None,
        "feeds": 5,
    }
    return {**found, **changed}


def run(*rounds: dict[str, Any], **changed: Any) -> RawRun:
    """A raw run of these rounds."""
    footprint: dict[str, Any] = {
        "size_bytes": 1000,
        "load_s": 0.01,
        "first_run_s": 0.002,
        "peak_memory_bytes": 4096,
    }
    return RawRun(footprint={**footprint, **changed}, rounds=rounds)


def simulated(
    *, rounds: int, pairs: int, ratio: float, session: float, noise: float, seed: int
) -> RawRun:
    """Rounds whose sessions differ for their whole life, with noise from block to block.

    Args:
        session: Standard deviation of the log of a session's own speed.
        noise: Standard deviation of the log of a block's median.
    """
    generator = np.random.default_rng(seed)
    made: list[dict[str, Any]] = []
    for _ in range(rounds):
        speeds = np.exp(generator.normal(0, session, 2)) * np.array([ratio, 1.0])
        medians = 0.001 * speeds * np.exp(generator.normal(0, noise, (pairs, 2)))
        made.append(
            bench(
                [block(float(mine), runs=1) for mine, _ in medians],
                [block(float(theirs), runs=1) for _, theirs in medians],
            )
        )
    return run(*made)
