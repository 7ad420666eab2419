"""`measure` with the real agent over the real pipe, on tiny models."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure
from edgeopt.errors import DeviceError, ModelError, UsageError
from edgeopt.measure.feeds import write_feeds
from edgeopt.measure.plan import PROTOCOLS, QUICK, protocol
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.replay import RecordingTarget, ReplayTarget
from edgeopt.testing import graphs

SHORT = replace(QUICK, pairs=2, min_seconds=0.03, floor_s=0.02, repeats=0, profile_runs=2)


@pytest.fixture(scope="module")
def target() -> Iterator[LocalTarget]:
    with LocalTarget() as made:
        yield made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model, one with twelve times its work, garbage, and feeds."""
    folder = tmp_path_factory.mktemp("measure")
    small, large = graphs.gemm_chain((64, 400, 4)), graphs.gemm_chain((64, 2400, 2400, 4))
    write_feeds([graphs.random_feeds(small, seed=n)[0] for n in range(5)], folder / "feeds.npz")
    np.savez(folder / "wrong.npz", **{"0/x": np.zeros((1, 3), np.float32)})
    (folder / "garbage.onnx").write_bytes(b"no model")
    return {
        "small": graphs.write(small, folder, "small.onnx"),
        "large": graphs.write(large, folder, "large.onnx"),
        "garbage": folder / "garbage.onnx",
        "feeds": folder / "feeds.npz",
        "wrong": folder / "wrong.npz",
    }


def ask(target: Any, files: Mapping[str, Path], **changed: Any) -> Outcome | Failure:
    job: dict[str, Any] = {
        "baseline": files["large"],
        "candidate": files["small"],
        "feeds": files["feeds"],
        "settings": RuntimeSettings(),
        "baseline_settings": RuntimeSettings(),
        "protocol": SHORT,
    }
    return measure(target, **{**job, **changed})


def test_a_smaller_model_is_faster(target: LocalTarget, files: dict[str, Path]) -> None:
    """All metrics, raw blocks of both, layers, facts; the lock is free again."""
    quiet = threading.Lock()
    found = ask(target, files, quiet=quiet)
    assert isinstance(found, Outcome)
    assert set(found.values) >= {"latency", "size", "load", "first_run"}
    latency = found.values["latency"]
    assert latency.samples
    assert latency.samples.ratio.value < 0.7
    assert [len(latency.samples.blocks), len(latency.samples.baseline)] == [2, 2]
    assert found.values["size"].value == files["small"].stat().st_size
    assert found.absent["energy"]
    assert found.profile
    assert found.profile["nodes"]
    assert found.environment["protocol"] == "quick"
    assert found.device_s > 0.2
    assert quiet.acquire(blocking=False)


def test_rounds_are_fresh_processes(target: LocalTarget, files: dict[str, Path]) -> None:
    """Blocks know the round that they ran in."""
    found = ask(target, files, protocol=replace(SHORT, rounds=2))
    assert isinstance(found, Outcome)
    assert found.values["latency"].samples
    assert found.values["latency"].samples.rounds == (0, 0, 1, 1)
    assert found.values["latency"].samples.fresh_rounds == 2


def test_the_baseline_has_a_ratio_too(target: LocalTarget, files: dict[str, Path]) -> None:
    """A against A: the value is the pooled baseline's, the interval holds it."""
    found = ask(target, files, candidate=files["large"], identical=True, baseline_latency_s=0.001)
    assert isinstance(found, Outcome)
    latency = found.values["latency"]
    assert latency.value == 0.001
    assert latency.interval
    assert latency.interval.contains(0.001)


@pytest.mark.parametrize(
    ("changed", "stage"), [({"candidate": "garbage"}, "load"), ({"feeds": "wrong"}, "run")]
)
def test_a_bad_candidate_is_a_failure(
    target: LocalTarget, files: dict[str, Path], changed: dict[str, str], stage: str
) -> None:
    """What the runtime refuses is a result with its stage and a reason."""
    found = ask(target, files, **{key: files[name] for key, name in changed.items()})
    assert isinstance(found, Failure)
    assert found.stage == stage
    assert found.reason


def test_a_slow_candidate_is_stopped(target: LocalTarget, files: dict[str, Path]) -> None:
    """The deadline makes a failure of it, and the device works on."""
    endless = replace(SHORT, min_seconds=300.0, deadline_s=4.0)
    found = ask(target, files, protocol=endless)
    assert isinstance(found, Failure)
    assert "too long" in found.reason
    assert isinstance(ask(target, files), Outcome)


def test_a_bad_baseline_is_an_error(target: LocalTarget, files: dict[str, Path]) -> None:
    """It is the user's model, not a candidate that failed."""
    with pytest.raises(ModelError, match="baseline cannot be measured"):
        ask(target, files, baseline=files["garbage"])


def test_a_missing_provider_is_an_error(target: LocalTarget, files: dict[str, Path]) -> None:
    """Never silently the CPU, and never a verdict on the candidate."""
    with pytest.raises(DeviceError, match="TensorrtExecutionProvider is not there"):
        ask(target, files, settings=RuntimeSettings(provider="TensorrtExecutionProvider"))


def test_a_recording_measures_the_same(files: dict[str, Path], tmp_path: Path) -> None:
    """The same values from a played back session: everything computed is a function of it."""
    recording = tmp_path / "session.jsonl"
    with RecordingTarget(LocalTarget(), recording) as live:
        recorded = ask(live, files)
    played = ask(ReplayTarget(recording), files)
    assert isinstance(recorded, Outcome)
    assert isinstance(played, Outcome)
    assert played.values == recorded.values
    assert played.verdict == recorded.verdict


def test_rungs_by_name() -> None:
    """Each rung costs more than the one below; another name is refused."""
    costs = [rung.estimate_s(0.001, 0.001) for rung in PROTOCOLS.values()]
    assert costs == sorted(costs)
    assert costs[0] < 4
    with pytest.raises(UsageError, match="quick, normal, publish"):
        protocol("slow")
