"""`Protocol`: how much is run for one measurement. Rungs from cheap to publishable."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgeopt.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One rung of the measurement protocol.

    A round is a fresh process that opens candidate and baseline, warms both up, and runs `pairs`
    block pairs in the order A B, B A, A B, ... A run of L seconds is executed

        rounds * 2 * (warm-up + pairs * max(min_runs, min_seconds / L))

    times, and the pass costs at least rounds * (start + 2 * floor_s + 2 * pairs * min_seconds)
    seconds, with a process start of about half a second.

    Args:
        name: What a trial records.
        rounds: Fresh processes; below three nothing under 5 % can be claimed.
        pairs: Block pairs a round.
        min_seconds: Least length of a block.
        min_runs: Least runs of a block.
        floor_s: Least warm-up of each model; a window of its end test is half as long.
        floor_runs: Least runs of a warm-up.
        cap_s: Longest warm-up; a model that has not settled by then is flagged.
        tolerance: How near the medians of the last two warm-up windows must be, as a share.
        repeats: Rounds that may be run once more in all, because the baseline drifted in them or
            the runs did not get their processors; neither looks at the candidate's ratio.
        profile_runs: Runs of the profiling pass.
        cool_s: Longest wait between two rounds for the machine to come back within 3 °C of where
            it began; 0 waits never.
        pace_s: Length of a window at the user's rate, ten periods at least.
        pace_pairs: Windows of each side at the user's rate.
        fresh_engines: Whether each round builds engines of its own where the provider compiles:
            two builds of one model differ, and the interval over rounds then holds that.
        percentiles: Which are values of their own, where the runs suffice for them.
        deadline_s: When the device ends a job of this rung.
    """

    name: str
    rounds: int
    pairs: int
    min_seconds: float
    min_runs: int
    floor_s: float
    floor_runs: int
    cap_s: float
    tolerance: float
    repeats: int
    profile_runs: int
    deadline_s: float
    cool_s: float
    pace_s: float
    pace_pairs: int
    percentiles: tuple[float, ...] = ()
    fresh_engines: bool = False

    @property
    def warmup(self) -> Mapping[str, float]:
        """The warm-up's part of a `bench` job."""
        return {
            "floor_s": self.floor_s,
            "floor_runs": self.floor_runs,
            "cap_s": self.cap_s,
            "tolerance": self.tolerance,
        }

    def periods(self, rate_hz: float) -> int:
        """Periods of a window at a rate."""
        return max(10, math.ceil(self.pace_s * rate_hz))

    def estimate_s(self, latency_s: float, baseline_s: float) -> float:
        """About how long a measurement takes, process starts and single runs included.

        Waiting (for an idle or a cool machine) and windows at a rate come on top.
        """
        start_s = 0.5
        block = sum(max(self.min_seconds, self.min_runs * each) for each in (latency_s, baseline_s))
        warm = sum(
            max(self.floor_s, self.floor_runs * each, 6 * each) for each in (latency_s, baseline_s)
        )
        passes = 2 * start_s + (4 + self.profile_runs) * latency_s
        return self.rounds * (start_s + warm + self.pairs * block) + passes


QUICK = Protocol(
    name="quick",
    rounds=1,
    pairs=4,
    min_seconds=0.2,
    min_runs=5,
    floor_s=0.1,
    floor_runs=3,
    cap_s=3.0,
    tolerance=0.05,
    repeats=1,
    profile_runs=10,
    deadline_s=180.0,
    cool_s=0.0,
    pace_s=2.0,
    pace_pairs=2,
)
NORMAL = Protocol(
    name="normal",
    rounds=3,
    pairs=3,
    min_seconds=0.3,
    min_runs=10,
    floor_s=0.2,
    floor_runs=5,
    cap_s=10.0,
    tolerance=0.03,
    repeats=2,
    profile_runs=20,
    deadline_s=600.0,
    cool_s=60.0,
    pace_s=10.0,
    pace_pairs=2,
)
PUBLISH = Protocol(
    name="publish",
    rounds=5,
    pairs=5,
    min_seconds=2.0,
    min_runs=64,
    floor_s=1.0,
    floor_runs=10,
    cap_s=60.0,
    tolerance=0.01,
    repeats=2,
    profile_runs=50,
    deadline_s=3600.0,
    cool_s=300.0,
    pace_s=30.0,
    pace_pairs=3,
    percentiles=(0.9, 0.99),
    fresh_engines=True,
)
FINAL = replace(NORMAL, fresh_engines=True)
"""The normal rung for what a search ends with: each of the three rounds builds its engines."""
PROTOCOLS: Mapping[str, Protocol] = {rung.name: rung for rung in (QUICK, NORMAL, PUBLISH)}


def protocol(name: str) -> Protocol:
    """The rung of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in PROTOCOLS:
        raise UsageError(f"there is no protocol {name!r}", hint="use " + ", ".join(PROTOCOLS))
    return PROTOCOLS[name]
