"""`edgeopt device calibrate`: what a device cannot show, and who is told of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgeopt.api.noise import NoiseFloor, keep_floor, known_floor
from edgeopt.errors import StorageError
from edgeopt.testing import graphs

Call = Callable[..., Any]
FLOOR = NoiseFloor(
    floor=0.02,
    times=20,
    excluded=1,
    unusable=0,
    model="digits",
    latency_s=0.001,
    protocol="quick",
    runtime="cpu",
    fingerprint="f" * 64,
    at=1.0,
)


@pytest.fixture
def edgeopt(edgeopt_here: Call) -> Call:
    """In this process; agents have processes of their own all the same."""
    return edgeopt_here


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """A user's cache, and an agent, of this test's own."""
    return {
        "XDG_CACHE_HOME": str(tmp_path / "user"),
        "TMPDIR": str(tmp_path),
        "EDGEOPT_CACHE": str(tmp_path / "agent"),
    }


@pytest.mark.alone
def test_a_calibrated_device_says_what_it_cannot_show(
    edgeopt: Call, tmp_path: Path, own: dict[str, str]
) -> None:
    """Five times beside itself; then a comparison there is judged by that, and none without."""
    models = [
        graphs.write(graphs.gemm_chain((64, width, 4), seed=width), tmp_path, f"{width}.onnx")
        for width in (300, 2400)
    ]
    words = ("--protocol", "quick", "--json")
    compare = ("measure", models[1], "--against", models[0], *words)
    before = json.loads(edgeopt(*compare, **own).out)
    assert (before["noise_floor"], before["below_noise_floor"]) == (None, None)
    done = edgeopt(
        "device", "calibrate", "local", "--model", models[0], "--times", "5", *words, **own
    )
    if done.code == 4:
        pytest.skip("this machine is too busy to be calibrated: " + done.err)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["times"], found["model"], found["protocol"]) == (5, "300", "quick")
    assert found["floor"] > 0
    assert 0 <= found["excluded"] <= 5
    after = json.loads(edgeopt(*compare, **own).out)
    assert after["noise_floor"]["floor"] == found["floor"]
    ratio = after["values"]["latency"]["value"]
    assert ratio > 0
    side = "below" if after["below_noise_floor"] else "above"
    assert f"the difference is {side} this device's noise floor" in after["text"]


def test_a_floor_holds_for_its_device_protocol_and_settings(tmp_path: Path) -> None:
    """Kept whole, replaced by the next one; nothing else has one."""
    keep_floor(FLOOR, tmp_path)
    keep_floor(replace(FLOOR, floor=0.03), tmp_path)
    key = (FLOOR.fingerprint, "quick", "cpu")
    found = known_floor(*key, tmp_path)
    assert found == replace(FLOOR, floor=0.03)
    assert known_floor("e" * 64, "quick", "cpu", tmp_path) is None
    assert known_floor(FLOOR.fingerprint, "normal", "cpu", tmp_path) is None
    assert known_floor(FLOOR.fingerprint, "quick", "cuda", tmp_path) is None
    for path in tmp_path.iterdir():
        path.write_text("{")
    assert known_floor(*key, tmp_path) is None


def test_a_floor_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    """With the folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be kept"):
        keep_floor(FLOOR, tmp_path / "file" / "noise")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--times", "2"), "at least 5"),
        (("--protocol", "slow"), "no protocol"),
        (("--model", "no-such-model"), "neither a file nor a model"),
    ],
)
def test_what_cannot_be_is_refused(
    edgeopt: Call, own: dict[str, str], words: tuple[str, ...], said: str
) -> None:
    """Exit code 2, before a device is opened."""
    done = edgeopt("device", "calibrate", "local", *words, **own)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
