"""Engines over the real agent, with a stand-in runtime that keeps a compiling provider's habits."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure, Overhead
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import FINAL, NORMAL
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.local import LocalTarget

FAKE = Path(__file__).parent / "fake_runtime"
SETTINGS: dict[str, Any] = {"provider": "TensorrtExecutionProvider", "threads": 1}
PATIENCE_S = 120.0
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def ask(cache: Path) -> Iterator[Ask]:
    """Ask the agent about a model of the given content, under TensorRT unless told otherwise."""
    feeds = cache / "feeds.npz"
    write_feeds([{"x": np.full((1, 2), i, dtype=np.float32)} for i in range(5)], feeds)
    environment = {"PYTHONPATH": str(FAKE), "EDGEOPT_CACHE": str(cache)}
    with LocalTarget(folder=cache, python=sys.executable, environment=environment) as target:

        def request(verb: str, content: str, settings: dict[str, Any] | None = None, **more: Any):
            model = cache / f"{content}.onnx"
            model.write_text(content)
            alone: dict[str, Any] = {"feeds": str(feeds), "settings": settings or SETTINGS}
            if verb == "bench":
                alone |= {"candidate": str(model), "baseline": str(model)} | BENCH
                alone["baseline_settings"] = {"provider": "CPUExecutionProvider"}
            else:
                alone["model"] = str(model)
            return target.request(verb, deadline_s=PATIENCE_S, **{**alone, **more})

        yield request


BENCH: dict[str, Any] = {
    "first": "candidate",
    "warmup": {"floor_s": 0.01, "floor_runs": 3, "cap_s": 0.2, "tolerance": 0.5},
    "pairs": 1,
    "min_seconds": 0.01,
    "min_runs": 3,
}


def kept(cache: Path) -> set[str]:
    """Names of the engines in the agent's folder."""
    return {path.name for path in (cache / "engines").iterdir()}


def test_an_engine_is_built_once(ask: Ask, cache: Path) -> None:
    """The first request builds; the second loads, and says what the build had cost."""
    first = ask("footprint", "once")
    assert first["ok"], first
    assert len(first["build_s"]) == 1
    assert first["build_s"][0] >= 0.05, "the stand-in sleeps that long when it builds"
    assert (first["engine"]["cached"], first["engine"]["reused"]) == (False, True)
    assert first["engine"]["bytes"] == 2 * len("once")
    second = ask("footprint", "once")
    assert second["build_s"] == []
    assert (second["engine"]["cached"], second["engine"]["reused"]) == (True, True)
    assert second["engine"]["build_s"] == first["engine"]["build_s"]
    assert first["engine"]["key"] in kept(cache)


def test_a_round_builds_its_own(ask: Ask, cache: Path) -> None:
    """`engine: fresh` measures an engine that was never used before; `cached` builds none."""
    ask("footprint", "round")
    before = kept(cache)
    fresh = ask("bench", "round", engine="fresh")
    assert fresh["ok"], fresh
    assert len(fresh["candidate"]["build_s"]) == 1
    assert fresh["baseline"]["build_s"] == []
    assert fresh["baseline"]["engine"] is None
    assert kept(cache) == before
    cached = ask("bench", "round", engine="cached")
    assert cached["candidate"]["build_s"] == []
    assert cached["candidate"]["engine"]["cached"]
    refused = ask("bench", "round", engine="stale")
    assert refused["error"]["code"] == "bad_request"


def test_a_round_in_turn_builds_one(ask: Ask, cache: Path) -> None:
    """Where memory is short each block has a session of its own, but the round has one engine."""
    ask("footprint", "turns")
    before = kept(cache)
    found = ask("bench", "turns", engine="fresh", together=False, pairs=3)
    assert found["ok"], found
    assert (found["together"], len(found["candidate"]["blocks"])) == (False, 3)
    assert len(found["candidate"]["build_s"]) == 1
    assert kept(cache) == before, "nothing is left of it"
    anew = ask("bench", "forget it", engine="fresh", together=False, pairs=3)
    assert len(anew["candidate"]["build_s"]) == 3, (
        "a runtime that does not take it builds each time"
    )


def test_finalists_are_measured_on_rebuilt_engines(cache: Path) -> None:
    """Three rounds, three engines of each side that compiles, beside the kept one of the search."""
    model, feeds = cache / "final.onnx", cache / "feeds-final.npz"
    model.write_text("final")
    write_feeds([{"x": np.full((1, 2), i, dtype=np.float32)} for i in range(5)], feeds)
    short = {"pairs": 1, "min_seconds": 0.01, "floor_s": 0.01, "repeats": 0, "cool_s": 0.0}
    settings = RuntimeSettings(provider="TensorrtExecutionProvider")
    environment = {"PYTHONPATH": str(FAKE), "EDGEOPT_CACHE": str(cache)}
    notes: list[str | None] = []
    spent: list[Overhead] = []
    with LocalTarget(folder=cache, python=sys.executable, environment=environment) as target:
        for protocol in (FINAL, NORMAL):
            found = measure(
                target,
                baseline=model,
                candidate=model,
                feeds=feeds,
                settings=settings,
                baseline_settings=settings,
                protocol=replace(protocol, **short),
            )
            assert isinstance(found, Outcome)
            notes.append(found.values["build"].note if "build" in found.values else None)
            spent.append(found.overhead)
            assert found.device_s > found.overhead.build_s + found.overhead.upload_s
    assert notes == ["median of 4 fresh processes", None]
    # Both sides of each round, and the kept one of both, which have the same file here.
    assert [each.builds for each in spent] == [7, 0]
    assert spent[0].build_s >= 7 * 0.05


def test_a_failure_has_cost_its_seconds(cache: Path) -> None:
    """What was built and sent before a candidate failed stands in the ledger, too."""
    bad, good, feeds = cache / "bad.onnx", cache / "good.onnx", cache / "feeds-bad.npz"
    bad.write_text("refuse it")
    good.write_text("good")
    write_feeds([{"x": np.full((1, 2), i, dtype=np.float32)} for i in range(5)], feeds)
    settings = RuntimeSettings(provider="TensorrtExecutionProvider")
    environment = {"PYTHONPATH": str(FAKE), "EDGEOPT_CACHE": str(cache)}
    with LocalTarget(folder=cache, python=sys.executable, environment=environment) as target:
        found = measure(
            target,
            baseline=good,
            candidate=bad,
            feeds=feeds,
            settings=settings,
            baseline_settings=settings,
            protocol=NORMAL,
        )
    assert isinstance(found, Failure)
    assert found.device_s > 0
    assert found == Failure(stage=found.stage, reason=found.reason), "its cost is no part of it"


def test_the_key_is_all_that_an_engine_depends_on(ask: Ask) -> None:
    """Other content, options or threads are another engine; affinity and spinning are not."""
    own = ask("footprint", "key")["engine"]["key"]
    changes: list[tuple[str, dict[str, Any]]] = [
        ("other", {}),
        ("key", {"options": {"trt_fp16_enable": "True"}}),
        ("key", {"threads": 2}),
        ("key", {"optimization": "basic"}),
    ]
    others = [
        ask("footprint", name, {**SETTINGS, **more})["engine"]["key"] for name, more in changes
    ]
    assert len({own, *others}) == 1 + len(changes)
    one = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    same = ask("footprint", "key", {**SETTINGS, "spinning": False, "affinity": [one]})
    assert (same["engine"]["key"], same["build_s"]) == (own, [])


def test_a_load_is_what_an_application_waits_for(tmp_path: Path) -> None:
    """Asking what the runtime offers takes two seconds here, and is no part of it."""
    model, feeds = tmp_path / "m.onnx", tmp_path / "feeds.npz"
    model.write_text("slow to ask")
    write_feeds([{"x": np.zeros((1, 2), dtype=np.float32)}], feeds)
    environment = {
        "PYTHONPATH": str(FAKE),
        "EDGEOPT_CACHE": str(tmp_path / "cache"),
        "FAKE_ASKED_S": "2",
    }
    with LocalTarget(folder=tmp_path, environment=environment) as target:
        found = target.request(
            "footprint",
            deadline_s=PATIENCE_S,
            model=str(model),
            feeds=str(feeds),
            settings={"provider": "CPUExecutionProvider"},
        )
    assert found["ok"], found
    assert found["load_s"] < 2


def test_an_engine_is_never_taken_on_another_gpu(tmp_path: Path) -> None:
    """Two boards that share a home folder: each builds its own."""
    model, feeds = tmp_path / "m.onnx", tmp_path / "feeds.npz"
    model.write_text("shared")
    write_feeds([{"x": np.zeros((1, 2), dtype=np.float32)}], feeds)
    alone: dict[str, Any] = {"model": str(model), "feeds": str(feeds), "settings": SETTINGS}
    found = []
    for gpu in ("Orin (sm_87)", "Thor (sm_110)", "Orin (sm_87)"):
        place = tmp_path / gpu / "proc/driver/nvidia/gpus/0/information"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"Model: \t\t {gpu}\nIRQ: 17\n")
        environment = {
            "PYTHONPATH": str(FAKE),
            "EDGEOPT_CACHE": str(tmp_path / "cache"),
            "EDGEOPT_SYSROOT": str(tmp_path / gpu),
        }
        with LocalTarget(folder=tmp_path, environment=environment) as target:
            found.append(target.request("footprint", deadline_s=PATIENCE_S, **alone))
    assert [len(each["build_s"]) for each in found] == [1, 1, 0]


def test_an_engine_without_a_record_is_none(ask: Ask, cache: Path) -> None:
    """What a build that was cut off left behind is built again."""
    key = ask("footprint", "cut")["engine"]["key"]
    record = cache / "engines" / key / "engine.json"
    record.write_text("{")
    found = ask("footprint", "cut")
    assert (len(found["build_s"]), found["engine"]["key"]) == (1, key)
    assert json.loads(record.read_text())["taken"] is True


def test_an_engine_that_was_lost_is_built_again(ask: Ask, cache: Path) -> None:
    """A record whose files are gone does not count as a load."""
    key = ask("footprint", "lost")["engine"]["key"]
    for path in (cache / "engines" / key).glob("*.engine"):
        path.unlink()
    found = ask("footprint", "lost")
    assert (len(found["build_s"]), found["engine"]["reused"]) == (1, True)


def test_a_runtime_that_does_not_take_its_engine(ask: Ask) -> None:
    """It is told, each opening counts as a build, and nothing is built only to be thrown away."""
    first = ask("footprint", "forget")
    assert first["engine"]["reused"] is False
    later = ask("footprint", "forget")
    assert len(later["build_s"]) == 1
    assert (later["engine"]["cached"], later["engine"]["reused"]) == (False, False)
    bench = ask("bench", "forget", engine="fresh")
    assert len(bench["candidate"]["build_s"]) == 1


@pytest.mark.parametrize(("content", "code"), [("crash", "crash"), ("refuse", "load_failed")])
def test_a_build_that_fails_is_a_result(ask: Ask, cache: Path, content: str, code: str) -> None:
    """A crash in the compiler is an answer about the candidate, and leaves no engine."""
    before = kept(cache)
    found = ask("footprint", content)
    assert (found["error"]["code"], found["error"]["phase"]) == (code, "load candidate")
    assert kept(cache) == before
    assert ask("footprint", "after")["ok"]


def test_what_cannot_be_kept_is_said(ask: Ask, tmp_path: Path) -> None:
    """A folder that is a file: the message names it."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "engines").write_text("")
    model, feeds = tmp_path / "m.onnx", tmp_path / "feeds.npz"
    model.write_text("x")
    write_feeds([{"x": np.zeros((1, 2), dtype=np.float32)}], feeds)
    environment = {"PYTHONPATH": str(FAKE), "EDGEOPT_CACHE": str(tmp_path / "cache")}
    with LocalTarget(folder=tmp_path, environment=environment) as target:
        alone: dict[str, Any] = {"model": str(model), "feeds": str(feeds), "settings": SETTINGS}
        found = target.request("footprint", deadline_s=PATIENCE_S, **alone)
    assert found["error"]["code"] == "no_space"
    assert "engines" in found["error"]["text"]


def test_a_provider_that_does_not_compile_has_no_engine(ask: Ask) -> None:
    """The CPU builds nothing, whatever is asked."""
    found = ask("footprint", "cpu", {"provider": "CPUExecutionProvider"})
    assert (found["engine"], found["build_s"]) == (None, [])


def test_the_profile_uses_the_kept_engine(ask: Ask) -> None:
    """Outputs come from the engine that was built before; no pass builds another."""
    ask("footprint", "outputs")
    found = ask("infer", "outputs")
    assert found["ok"], found
    assert ask("footprint", "outputs")["build_s"] == []
    shutil.rmtree(Path(found["outputs"]).parent, ignore_errors=True)
