"""An emulated arm64 board through a real sshd: agent and numerics are real there, time is not.

The emulated processor is a Cortex-A76. No time that is measured here says anything of a board.
"""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.core.protocols import Target
from edgeopt.measure.feeds import write_feeds
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import SETTINGS, bench_job, material
from tests.conftest import DIGITS
from tests.lab.board import Board, Network, Reach

pytestmark = pytest.mark.lab

SAMPLES = 32


@pytest.fixture
def arm64_board(network: Network, arm64: Path) -> Board:
    """The board `lab-arm64`."""
    return network.board("lab-arm64", entry={"python": str(arm64)})


def outputs(target: Target, feeds: Path) -> dict[str, np.ndarray]:
    reply = target.request(
        "infer",
        deadline_s=400,
        model=target.put(DIGITS / "digits.onnx"),
        feeds=target.put(feeds),
        settings=dict(SETTINGS),
    )
    assert reply["ok"], reply
    with np.load(target.fetch(reply["outputs"])) as stored:
        return {key: stored[key] for key in stored.files}


def digits_feeds(folder: Path) -> Path:
    """The first samples of the digits, as feeds."""
    with np.load(DIGITS / "digits.npz") as stored:
        images = (stored["image"][:SAMPLES].astype(np.float32) / 255 - 0.5) / 0.5
    path = folder / "digits-feeds.npz"
    write_feeds([{"image": image[None]} for image in images], path)
    return path


def test_digits_like_on_this_machine(reach: Reach, arm64_board: Board, tmp_path: Path) -> None:
    """The arm64 runtime gives this machine's outputs; the probe says what is emulated."""
    feeds = digits_feeds(tmp_path)
    with LocalTarget() as here:
        expected = outputs(here, feeds)
    there = reach(arm64_board.entry)
    facts = there.request("probe", deadline_s=400)
    assert facts["architecture"] == "aarch64"
    assert {"neon", "dotprod", "fp16"} <= set(facts["features"]), "those of a Cortex-A76"
    assert not {"avx2", "i8mm", "sve"} & set(facts["features"]), "and of nothing else"
    found = outputs(there, feeds)
    there.close()
    assert sorted(found) == sorted(expected)
    assert len(found) == SAMPLES
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4)
        assert found[key].argmax() == value.argmax()
    assert arm64_board.quiet()


@pytest.mark.slow
def test_jobs_run(reach: Reach, arm64_board: Board, tmp_path: Path) -> None:
    """A job's child is started by the emulated interpreter too, and measures (emulated time).

    Slow: the emulator starts a dozen interpreters.
    """
    target = reach(arm64_board.entry)
    model, feeds = material(tmp_path)
    job = bench_job(target.put(model), target.put(feeds))
    reply = target.request("bench", deadline_s=400, **job)
    assert reply["ok"], reply
    assert len(reply["candidate"]["blocks"]) == 2
    target.close()
    assert arm64_board.quiet()
