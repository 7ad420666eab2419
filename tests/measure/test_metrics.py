"""Metrics from raw runs: the paired ratio, its interval, and what is absent."""

from typing import Any

import numpy as np
import pytest
from measure_rounds import bench, block, run, simulated

from edgeopt.measure.metrics import evaluate, latency, samples


def test_latency_is_the_pooled_baseline_times_the_ratio() -> None:
    """Absolute times of another minute do not enter: only the ratio of the pairs does."""
    raw = run(bench([block(0.0006)] * 4, [block(0.0012)] * 4))
    found = latency(raw, baseline_s=0.0010)
    assert found.value == pytest.approx(0.0005)
    assert found.interval
    assert found.interval.low == found.interval.high == pytest.approx(0.0005)
    assert latency(raw).value == pytest.approx(0.0006)


def test_slow_phase_of_the_machine_cancels() -> None:
    """Both sides three times slower in half of the pairs: the ratio stays."""
    slow, fast = (block(0.003), block(0.006)), (block(0.001), block(0.002))
    pairs = [fast, slow, slow, fast]
    raw = run(bench([pair[0] for pair in pairs], [pair[1] for pair in pairs]))
    assert samples(raw).ratio.value == pytest.approx(0.5)
    assert samples(raw).ratio.high == pytest.approx(0.5)


def test_the_baseline_beside_itself() -> None:
    """Its ratio is known to be 1; what was measured shows as the interval."""
    raw = run(bench([block(0.00102)] * 4, [block(0.001)] * 4))
    found = latency(raw, baseline_s=0.002, identical=True)
    assert found.value == 0.002
    assert found.interval
    assert (found.interval.low, found.interval.high) == pytest.approx((0.002, 0.00204))
    assert found.samples
    assert found.samples.ratio.value == pytest.approx(1.02)


@pytest.mark.parametrize(("rounds", "pairs"), [(3, 3), (5, 5)])
def test_the_interval_covers_equal_models(rounds: int, pairs: int) -> None:
    """Sessions of the same bytes 1.4 % apart: 1 lies inside in at least nine of ten runs."""
    hits = [
        samples(
            simulated(rounds=rounds, pairs=pairs, ratio=1.0, session=0.014, noise=0.01, seed=seed)
        ).ratio.contains(1.0)
        for seed in range(200)
    ]
    assert np.mean(hits) >= 0.9


def test_the_interval_covers_a_known_ratio() -> None:
    """A model that takes 0.8 of the time: found, and called faster nearly always."""
    found = [
        samples(simulated(rounds=3, pairs=3, ratio=0.8, session=0.014, noise=0.01, seed=seed))
        for seed in range(100)
    ]
    assert np.mean([each.ratio.contains(0.8) for each in found]) >= 0.9
    assert np.mean([each.faster for each in found]) >= 0.95


def test_equal_models_are_rarely_called_faster() -> None:
    """At most one in twenty, although sessions differ."""
    called = [
        samples(simulated(rounds=3, pairs=3, ratio=1.0, session=0.02, noise=0.01, seed=seed)).faster
        for seed in range(200)
    ]
    assert np.mean(called) <= 0.05


def test_what_is_absent_says_why() -> None:
    """No peak: a reason instead of a number."""
    values, absent = evaluate(run(bench([block()], [block()]), peak_memory_bytes=None))
    assert set(values) == {"latency", "size", "load", "first_run"}
    assert "peak memory" in absent["peak_memory"]


@pytest.mark.parametrize(
    ("runs", "note"), [(10, "no p90: 20 runs, 64 are needed"), (40, "p90 below")]
)
def test_p90_only_with_enough_runs(runs: int, note: str) -> None:
    """The note of a latency says what can be said about its tail."""
    assert note in latency(run(bench([block(runs=runs)] * 2, [block()] * 2))).note


def test_batched_times_have_no_percentile() -> None:
    """Means of batches say nothing about single runs."""
    reply = bench([block(runs=100)] * 2, [block()] * 2)
    reply["candidate"]["batch"] = 4
    assert "means of batches" in latency(run(reply)).note


def test_percentiles_are_values_where_the_runs_suffice() -> None:
    """p90 from 64 runs, p99 from 662; scaled to the pooled baseline like the latency."""
    few, many = ([block(runs=runs)] * 2 for runs in (40, 331))
    values, absent = evaluate(run(bench(few, few)), quantiles=(0.9, 0.99))
    assert values["latency_p90"].value == pytest.approx(0.001)
    assert absent["latency_p99"] == "80 runs, 662 are needed"
    values, absent = evaluate(run(bench(many, many)), baseline_s=0.002, quantiles=(0.9, 0.99))
    assert values["latency_p99"].value == pytest.approx(0.002)
    assert "662 runs" in values["latency_p99"].note
    assert "p99 below 2 ms" in values["latency"].note
    assert "latency_p99" not in absent


def opened(position: int, load_s: float) -> dict[str, Any]:
    """A round whose candidate was opened in that position."""
    reply = bench([block()] * 2, [block()] * 2)
    reply["candidate"].update(opened=position, load_s=load_s, first_run_s=load_s / 10)
    return reply


def test_loads_are_those_of_fresh_processes() -> None:
    """A second session finds the runtime set up: rounds that open the candidate first count."""
    raw = run(opened(0, 0.012), opened(1, 0.001), opened(0, 0.014))
    values, _ = evaluate(raw)
    load, first = values["load"], values["first_run"]
    assert load.value == 0.012
    assert load.interval
    assert load.interval.low < 0.010 < 0.014 < load.interval.high
    assert load.note == "median of 3 fresh processes"
    assert first.value == pytest.approx(0.0014)
    single, _ = evaluate(run(opened(1, 0.001)))
    assert (single["load"].note, single["load"].interval) == ("1 sample", None)


def engine(**changed: Any) -> dict[str, Any]:
    return {"bytes": 5000, "build_s": 3.0, "reused": True, **changed}


def test_builds_apart_from_loads() -> None:
    """What was built in this run is a value; what was built before is told, not claimed."""
    rounds = [bench([block()] * 2, [block()] * 2) for _ in range(2)]
    values, _ = evaluate(run(*rounds, engine=engine(), build_s=[3.0]))
    assert (values["build"].value, values["engine_size"].value) == (3.0, 5000)
    for reply, seconds in zip(rounds, (4.0, 5.0), strict=True):
        reply["candidate"]["build_s"] = [seconds]
    values, _ = evaluate(run(*rounds, engine=engine(), build_s=[3.0]))
    assert values["build"].value == 4.0
    assert values["build"].interval


def test_kept_engines() -> None:
    """The time of another day is a reason, and an engine that is not taken has no size."""
    plain = bench([block()] * 2, [block()] * 2)
    values, absent = evaluate(run(plain, engine=engine(), build_s=[]))
    assert "build" not in values
    assert "which took 3 s" in absent["build"]
    _, absent = evaluate(run(plain, engine=engine(reused=False), build_s=[1.0]))
    assert "builds anew" in absent["engine_size"]
    values, absent = evaluate(run(plain, engine=None, build_s=[]))
    assert not {"build", "engine_size"} & (values.keys() | absent.keys())
