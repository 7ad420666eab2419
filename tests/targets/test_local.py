"""The local target: the shelf's exam, and what happens when its agent dies."""

import os
import signal
import threading
from pathlib import Path

import pytest

from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError
from edgeopt.targets.bundle import agent_bundle
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import bench_job, examine, material


def test_takes_the_exam(tmp_path: Path) -> None:
    """The local target keeps the protocol."""
    with LocalTarget() as target:
        assert isinstance(target, Target)
        examine(target, tmp_path)


def test_dead_agent_is_a_device_error(tmp_path: Path) -> None:
    """kill -9 of the agent in the middle of a job: an error with place and hint, then for ever."""
    model, feeds = material(tmp_path)
    with LocalTarget() as target:
        job = bench_job(str(model), str(feeds), min_seconds=60.0)
        threading.Timer(1.5, os.kill, (target.pid, signal.SIGKILL)).start()
        with pytest.raises(DeviceError, match="signal 9") as caught:
            target.request("bench", deadline_s=300, **job)
        assert caught.value.where == "local"
        assert caught.value.hint
        with pytest.raises(DeviceError):
            target.request("hello", deadline_s=10)


def test_closing_twice_is_allowed(tmp_path: Path) -> None:
    """After it was closed the target answers nothing, and closing again does nothing."""
    target = LocalTarget()
    target.close()
    target.close()
    with pytest.raises(DeviceError, match="closed"):
        target.request("hello", deadline_s=10)


def test_interpreter_that_is_none() -> None:
    """A wrong interpreter is said at once."""
    with pytest.raises(DeviceError, match="cannot be started") as caught:
        LocalTarget(python="/nowhere/python3")
    assert caught.value.hint


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is the host's error, not the agent's."""
    with LocalTarget() as target, pytest.raises(DeviceError, match="no such file"):
        target.put(tmp_path / "none.onnx")


def test_bundle_is_deterministic(tmp_path: Path) -> None:
    """Equal sources give equal bytes under an equal name; a second call writes nothing."""
    one, two = agent_bundle(tmp_path / "a"), agent_bundle(tmp_path / "b")
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()
    written = one.stat().st_mtime_ns
    assert agent_bundle(tmp_path / "a").stat().st_mtime_ns == written
    assert list((tmp_path / "a").iterdir()) == [one]
