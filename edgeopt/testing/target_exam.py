"""The exam of the targets' shelf: what every door to a device must do, with a live one.

def test_my_target(tmp_path):
    with MyTarget(...) as target:
        examine(target, tmp_path)
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeopt.core.protocols import Target
from edgeopt.measure.feeds import write_feeds
from edgeopt.testing import graphs

SETTINGS: Mapping[str, Any] = {"provider": "CPUExecutionProvider", "threads": 1}
SLACK_S = 12.0
"""What a loaded machine may add to a deadline: stop, kill, answer."""


def bench_job(model: str, feeds: str, **changed: Any) -> dict[str, Any]:
    """A small `bench` job: two pairs of short blocks of a model beside itself."""
    job: dict[str, Any] = {
        "candidate": model,
        "baseline": model,
        "feeds": feeds,
        "settings": dict(SETTINGS),
        "baseline_settings": dict(SETTINGS),
        "first": "candidate",
        "warmup": {"floor_s": 0.02, "floor_runs": 3, "cap_s": 1.0, "tolerance": 0.1},
        "pairs": 2,
        "min_seconds": 0.02,
        "min_runs": 3,
    }
    return {**job, **changed}


def material(folder: Path) -> tuple[Path, Path]:
    """A tiny model and five feeds for it, as files."""
    proto = graphs.gemm_chain()
    model, feeds = graphs.write(proto, folder), folder / "feeds.npz"
    write_feeds([graphs.random_feeds(proto, seed=seed)[0] for seed in range(5)], feeds)
    return model, feeds


def examine(target: Target, folder: Path) -> None:
    """Assert that a live target keeps the protocol.

    Facts and a fingerprint that stays; raw blocks of both sides in equal number; outputs as a
    file; a candidate's failures as replies with their codes, never raised; a missing provider
    never replaced silently; deadlines kept; and a device that works on after each of these.
    """
    model, feeds = material(folder)
    file, samples = target.put(model), target.put(feeds)
    _facts(target)
    _results(target, file, samples)
    _failures(target, file, samples, target.put(_garbage(folder)))
    _deadline(target, file, samples)
    assert target.request("probe", deadline_s=60)["ok"], "works on after a stopped job"


def _garbage(folder: Path) -> Path:
    path = folder / "garbage.onnx"
    path.write_bytes(b"this is no model" * 64)
    return path


def _facts(target: Target) -> None:
    hello = target.request("hello", deadline_s=60)
    assert hello["protocol"] == 1
    first, second = (target.request("probe", deadline_s=60) for _ in range(2))
    assert first["fingerprint"] == second["fingerprint"]
    assert first["architecture"]
    assert first["runtime"] == hello["runtime"]["version"]


def _results(target: Target, model: str, feeds: str) -> None:
    alone: dict[str, Any] = {"model": model, "feeds": feeds, "settings": dict(SETTINGS)}
    found = target.request("footprint", deadline_s=60, **alone)
    assert found["ok"]
    assert found["size_bytes"] > 0
    assert found["load_s"] > 0
    reply = target.request("bench", deadline_s=60, **bench_job(model, feeds))
    assert reply["ok"]
    for side in ("candidate", "baseline"):
        assert [len(block["times_s"]) > 0 for block in reply[side]["blocks"]] == [True, True]
    nodes = target.request("profile", deadline_s=60, runs=2, **alone)["nodes"]
    assert any(node["op"] in {"Gemm", "FusedGemm", "MatMul"} for node in nodes)
    outputs = target.request("infer", deadline_s=60, **alone)["outputs"]
    with np.load(target.fetch(outputs)) as stored:
        assert sorted(stored.files) == [f"{number}/logits" for number in range(5)]


def _failures(target: Target, model: str, feeds: str, garbage: str) -> None:
    alone: dict[str, Any] = {"feeds": feeds, "settings": dict(SETTINGS)}
    reply = target.request("footprint", deadline_s=60, model=garbage, **alone)
    assert not reply["ok"]
    assert (reply["error"]["code"], reply["error"]["phase"]) == ("load_failed", "load candidate")
    other = {**SETTINGS, "provider": "NoSuchExecutionProvider"}
    reply = target.request("footprint", deadline_s=60, model=model, feeds=feeds, settings=other)
    assert reply["error"]["code"] == "provider_missing"
    reply = target.request("dance", deadline_s=60)
    assert reply["error"]["code"] == "bad_request"


def _deadline(target: Target, model: str, feeds: str) -> None:
    start = time.monotonic()
    job = bench_job(model, feeds, min_seconds=120.0)
    reply = target.request("bench", deadline_s=3.0, **job)
    assert reply["error"]["code"] == "timeout"
    assert time.monotonic() - start < 3.0 + SLACK_S
