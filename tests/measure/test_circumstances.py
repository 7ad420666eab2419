"""What the machine did during a run: each reason alone, and what is unknown accuses nobody."""

from dataclasses import replace
from typing import Any

import pytest
from measure_rounds import SETTINGS, bench, block, run

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Verdict
from edgeopt.measure.circumstances import (
    clocked,
    cooled,
    fed,
    free_gpu,
    in_memory,
    throttled,
    together,
    waited,
)
from edgeopt.measure.raw import RawRun


def plain(**changed: Any) -> RawRun:
    blocks = [block(**changed)] * 4
    return run(bench(blocks, blocks))


def test_a_throttle_counter_that_rises_is_invalid() -> None:
    """By name, summed over all blocks of both sides."""
    found = throttled(plain(throttle={"oc3_event_cnt": 2}))
    assert found.status == "invalid"
    assert found.reasons == ("throttled: oc3_event_cnt (+16) during the blocks",)
    assert throttled(plain(throttle={})) == throttled(plain(throttle=None)) == Verdict()
    assert throttled(plain()) == Verdict()


def test_throttling_at_the_users_rate_counts() -> None:
    """Windows at a rate are watched like blocks, for swapping too."""
    side = {"blocks": [block(throttle={"throttled": 1}, swapped_pages=300)]}
    raw = replace(plain(), pace={"candidate": side, "baseline": {"blocks": []}})
    assert throttled(raw).status == "invalid"
    assert in_memory(raw).status == "invalid"


@pytest.mark.parametrize(("busy", "status"), [(None, "valid"), (0.05, "valid"), (0.4, "suspect")])
def test_a_gpu_that_others_use(busy: float | None, status: str) -> None:
    """Read before the first job; a device that does not tell is not accused."""
    raw = run(bench([block()] * 4, [block()] * 4), before={"gpu_busy": busy})
    assert free_gpu(raw).status == status
    assert free_gpu(plain()) == Verdict()


def test_an_idle_machine_that_did_not_come() -> None:
    """What was seen at the end of the wait is told; an idle one says nothing."""
    seen = {"idle": False, "waited_s": 60.0, "busy_share": 0.34, "gpu_busy": None}
    found = waited(replace(plain(), waited=seen))
    assert found.status == "suspect"
    assert found.reasons[0].endswith("other work still took 34% of the processors")
    both = waited(replace(plain(), waited={**seen, "busy_share": 0.04, "gpu_busy": 0.5}))
    assert both.reasons[0].endswith("took 50% of the GPU"), "4 % of the processors are no reason"
    assert waited(replace(plain(), waited={**seen, "idle": True})) == waited(plain()) == Verdict()


def test_a_rest_that_ended_warm_is_said() -> None:
    """It is a remark: what the heat did is judged by itself."""
    reply = {"idle": False, "waited_s": 60.0, "temperature_c": 71.0}
    found = cooled(replace(plain(), cooled=[{**reply, "idle": True}, reply]))
    assert found == Verdict(reasons=("warm: still 71 °C after 60 s of rest",))
    assert cooled(plain()) == Verdict()


def test_sessions_in_turn_are_said() -> None:
    """A remark, not an accusation: the ratio stays paired."""
    blocks = [block()] * 4
    assert together(run(bench(blocks, blocks, together=True))) == Verdict()
    found = together(run(bench(blocks, blocks, together=False)))
    assert found.status == "valid"
    assert "memory" in found.reasons[0]


def test_two_sides_on_unlike_processors() -> None:
    """A little core beside a big one is no drop of the clock, a drop on one of them is."""
    big, little = [block(clock_hz=2e9)] * 4, [block(clock_hz=1e9)] * 4
    assert clocked(run(bench(big, little))) == Verdict()
    falling = [*big[:3], block(clock_hz=1.5e9)]
    assert clocked(run(bench(falling, little))).reasons == ("clock: 1500 to 2000 MHz",)


def test_pinned_to_one_processor_two_threads_need_one() -> None:
    """What a mask leaves is what can be had: no starvation where nothing else was there."""
    settings = {
        "candidate": RuntimeSettings(threads=2, affinity=(0,)),
        "baseline": SETTINGS["baseline"],
    }
    reply = bench([block()] * 4, [block()] * 4)
    assert fed(run(reply), settings).status == "suspect"
    reply["candidate"]["processors"] = 1
    assert fed(run(reply), settings) == Verdict()
