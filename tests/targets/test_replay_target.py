"""A recorded session plays back without a device."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.errors import ConfigError, DeviceError
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.open import open_target
from edgeopt.targets.replay import RecordingTarget, ReplayTarget
from edgeopt.testing.target_exam import SETTINGS, bench_job, material


def session(target: Target, model: Path, feeds: Path) -> list[Any]:
    """A few requests, as any caller makes them."""
    file, samples = target.put(model), target.put(feeds)
    infer = target.request(
        "infer", deadline_s=60, model=file, feeds=samples, settings=dict(SETTINGS)
    )
    with np.load(infer["outputs"]) as stored:
        outputs = stored["3/logits"].tolist()
    bench = target.request("bench", deadline_s=60, **bench_job(file, samples))
    return [bench["candidate"], outputs]


def test_plays_back_what_was_recorded(tmp_path: Path) -> None:
    """Equal replies, output files included, although the model lies elsewhere now."""
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    recording = tmp_path / "session.jsonl"
    with RecordingTarget(LocalTarget(), recording) as live:
        recorded = session(live, *material(tmp_path / "there"))
    with ReplayTarget(recording) as played:
        assert played.name == "local"
        assert session(played, *material(tmp_path / "here")) == recorded
        with pytest.raises(DeviceError, match="no \\(further\\) reply"):
            played.request("probe", deadline_s=1)


def test_unreadable_recording(tmp_path: Path) -> None:
    """A damaged recording is said with its place."""
    path = tmp_path / "session.jsonl"
    path.write_text("{")
    with pytest.raises(DeviceError, match=r"session\.jsonl"):
        ReplayTarget(path)


@pytest.mark.parametrize("said", ["fast", "-1", "nan", "inf", ""])
def test_a_pace_that_is_none_names_the_entry(said: str, tmp_path: Path) -> None:
    """Never a bare ValueError: what it says, where, and what it may be."""
    recording = tmp_path / "session.jsonl"
    recording.write_text('{"name": "pi"}\n')
    entry = DeviceEntry(
        name="pi",
        kind="replay",
        recording=str(recording),
        origin="devices.toml",
        environment={"EDGEOPT_REPLAY_PACE": said},
    )
    with pytest.raises(ConfigError, match="EDGEOPT_REPLAY_PACE") as caught:
        open_target(entry, folder=tmp_path)
    assert caught.value.where == "devices.toml"
    assert caught.value.hint
    paced = replace(entry, environment={"EDGEOPT_REPLAY_PACE": "0.5"})
    assert open_target(paced, folder=tmp_path).name == "pi"
