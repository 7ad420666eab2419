"""A real provider that compiles: OpenVINO in an interpreter of its own, over the real agent."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.measure.plan import QUICK
from edgeopt.measure.runner import Outcome, measure
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import bench_job, material

ROOT = Path(__file__).parents[2]
PYTHON = Path(
    os.environ.get("EDGEOPT_OPENVINO_PYTHON", str(ROOT / ".lab" / "openvino" / "bin" / "python"))
)
OPENVINO, CPU = "OpenVINOExecutionProvider", "CPUExecutionProvider"
SETTINGS: dict[str, Any] = {"provider": OPENVINO, "threads": 1, "options": {"device_type": "CPU"}}
PATIENCE_S = 300.0
pytestmark = [
    pytest.mark.openvino,
    pytest.mark.skipif(
        not PYTHON.is_file(),
        reason="no interpreter with onnxruntime-openvino: `make lab-openvino`, or name one in "
        "EDGEOPT_OPENVINO_PYTHON",
    ),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("openvino")


@pytest.fixture(scope="module")
def target(place: Path) -> Iterator[LocalTarget]:
    environment = {"EDGEOPT_CACHE": str(place / "cache")}
    with LocalTarget(
        "lab-openvino", folder=place, python=str(PYTHON), environment=environment
    ) as t:
        yield t


@pytest.fixture(scope="module")
def alone(place: Path) -> dict[str, Any]:
    model, feeds = material(place)
    return {"model": str(model), "feeds": str(feeds), "settings": SETTINGS}


def test_it_is_proven(target: LocalTarget) -> None:
    """Both of its providers compute the tiny model alike."""
    found = target.request("prove", deadline_s=PATIENCE_S)["providers"]
    assert found[OPENVINO]["ok"], found
    assert found[CPU]["ok"]


def test_a_build_is_counted(target: LocalTarget, alone: dict[str, Any], place: Path) -> None:
    """The build has its seconds; an engine file was written; what is reused is said."""
    found = target.request("footprint", deadline_s=PATIENCE_S, **alone)
    assert found["ok"], found
    assert len(found["build_s"]) == 1
    assert all(seconds > 0 for seconds in found["build_s"])
    assert found["engine"]["bytes"] > 0
    assert isinstance(found["engine"]["reused"], bool)
    kept = place / "cache" / "engines" / found["engine"]["key"]
    assert sorted(path.suffix for path in kept.iterdir()) == [".blob", ".json"]


def test_the_profile_shows_one_node(target: LocalTarget, alone: dict[str, Any]) -> None:
    """The graph is hidden in the engine: the reply says so, and asks for no dump."""
    found = target.request("profile", deadline_s=PATIENCE_S, runs=2, **alone)
    assert found["ok"], found
    assert found["compiled"]
    assert {node["provider"] for node in found["nodes"]} == {OPENVINO}
    assert len(found["nodes"]) == 1


def test_outputs_are_those_of_the_cpu(target: LocalTarget, alone: dict[str, Any]) -> None:
    """Float32 stays within rounding."""
    both = []
    for settings in (SETTINGS, {"provider": CPU, "threads": 1}):
        found = target.request("infer", deadline_s=PATIENCE_S, **{**alone, "settings": settings})
        with np.load(found["outputs"]) as stored:
            both.append(np.stack([stored[key] for key in sorted(stored.files)]))
    np.testing.assert_allclose(both[0], both[1], atol=1e-4)


@pytest.mark.parametrize("engine", ["cached", "fresh"])
def test_beside_the_cpu(target: LocalTarget, alone: dict[str, Any], engine: str) -> None:
    """Blocks of it and of the CPU provider in one process, each under its own settings."""
    job = bench_job(alone["model"], alone["feeds"], settings=SETTINGS, engine=engine)
    found = target.request("bench", deadline_s=PATIENCE_S, **job)
    assert found["ok"], found
    assert found["candidate"]["providers"][0] == OPENVINO
    assert found["candidate"]["engine"]["provider"] == OPENVINO
    assert found["baseline"]["engine"] is None


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"device_typ": "CPU"}, "bad_option", "device_typ"),
        ({"device_type": "CPU", "precision": "FP16"}, "provider_missing", "precision"),
        ({"device_type": "NPU"}, "provider_missing", "NPU"),
    ],
)
def test_it_is_never_replaced_by_the_cpu(
    target: LocalTarget, alone: dict[str, Any], options: dict[str, str], code: str, words: str
) -> None:
    """What the runtime answers by a silent session on the CPU is an error with its reason."""
    settings = {**SETTINGS, "options": options}
    found = target.request("footprint", deadline_s=PATIENCE_S, **{**alone, "settings": settings})
    assert found["error"]["code"] == code
    assert words in found["error"]["text"]


def test_a_measurement_says_what_it_knows(
    target: LocalTarget, alone: dict[str, Any], place: Path
) -> None:
    """Latency, build and load apart; the placement is unknown and nobody is accused of fallback."""
    settings = RuntimeSettings(provider=OPENVINO, options={"device_type": "CPU"})
    found = measure(
        target,
        baseline=Path(alone["model"]),
        candidate=Path(alone["model"]),
        feeds=Path(alone["feeds"]),
        settings=settings,
        baseline_settings=settings,
        protocol=QUICK,
        identical=True,
    )
    assert isinstance(found, Outcome)
    assert found.values["latency"].value > 0
    assert "load" in found.values
    assert "build" in found.values or "build" in found.absent
    assert not any("fallback" in reason.lower() for reason in found.verdict.reasons)
