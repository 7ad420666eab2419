"""Boards with something wrong: what is said, what is left behind, and that they work again.

The boards are this machine behind a real sshd. A read-only and a small file system that only the
board's server sees stand in for a protected home and for a full SD card.
"""

import os
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError
from edgeopt.measure.feeds import write_feeds
from edgeopt.testing.target_exam import SETTINGS, bench_job, examine, material
from tests.lab.board import Board, Network, Reach
from tests.lab.groups import Group

pytestmark = pytest.mark.lab


def job_runs(target: Target, folder: Path) -> bool:
    model, feeds = material(folder)
    job = bench_job(target.put(model), target.put(feeds))
    return bool(target.request("bench", deadline_s=240, **job)["ok"])


def test_takes_the_exam(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A real sshd in between, the target keeps the whole protocol."""
    target = reach(board.entry)
    examine(target, tmp_path)
    target.close()
    assert board.quiet()


def test_path_with_spaces(reach: Reach, network: Network, tmp_path: Path) -> None:
    """Interpreter, cache folder and files with spaces and quotes in their paths."""
    odd = network.folder / "my board's $HOME"
    odd.mkdir()
    (odd / "the python").symlink_to(sys.executable)
    folder = tmp_path / "two words"
    folder.mkdir()
    board = network.board(
        "spaces", entry={"cache_dir": f"{odd}/a cache", "python": f"{odd}/the python"}
    )
    # A link outside a virtual environment does not find its packages.
    environment = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    entry = type(board.entry)(
        name="spaces",
        host="spaces",
        python=board.entry.python,
        cache_dir=board.entry.cache_dir,
        environment=environment,
    )
    target = reach(entry)
    assert job_runs(target, folder)
    target.close()
    assert list((odd / "a cache").iterdir())
    assert board.quiet()


def test_home_without_write_permission(
    reach: Reach, network: Network, mounts: None, tmp_path: Path
) -> None:
    """A home that cannot be written: said with the folder, and `cache_dir` named as the cure."""
    home = network.folder / "locked" / "home"
    board = network.board("locked", mounts=[["--bind", "-o", "ro", str(home), str(home)]])
    with pytest.raises(DeviceError) as caught:
        reach(board.entry)
    assert "Read-only file system" in str(caught.value)
    assert str(home) in str(caught.value)
    assert "cache_dir" in caught.value.hint
    assert board.quiet()
    elsewhere = network.folder / "elsewhere"
    entry = type(board.entry)(
        name="locked", host="locked", python=sys.executable, cache_dir=str(elsewhere)
    )
    target = reach(entry)
    assert job_runs(target, tmp_path), "with the cure it works"
    target.close()


def test_full_disk(reach: Reach, network: Network, mounts: None, tmp_path: Path) -> None:
    """A model that no space is left for: said with the folder, and small ones still work."""
    home = network.folder / "full" / "home"
    small = ["-t", "tmpfs", "-o", "size=2m", "tmpfs", str(home)]
    board = network.board("full", mounts=[small])
    big = tmp_path / "big.bin"
    big.write_bytes(os.urandom(4 << 20))
    target = reach(board.entry)
    with pytest.raises(DeviceError) as caught:
        target.put(big)
    assert "space" in str(caught.value).lower()
    assert "full" in caught.value.where
    assert caught.value.hint
    assert job_runs(target, tmp_path), "what fits still goes there, after the failure"
    target.close()
    assert board.quiet()


def test_full_disk_from_the_start(
    reach: Reach, network: Network, mounts: None, tmp_path: Path
) -> None:
    """Not even the agent fits: an error with exit code 3, no trace of Python."""
    home = network.folder / "tiny" / "home"
    board = network.board("tiny", mounts=[["-t", "tmpfs", "-o", "size=8k", "tmpfs", str(home)]])
    with pytest.raises(DeviceError) as caught:
        reach(board.entry)
    assert "space" in str(caught.value).lower()
    assert "Traceback" not in str(caught.value)
    assert board.quiet()


@pytest.mark.parametrize("python", ["/nowhere/python3", "~/no such/python3"])
def test_python_missing(reach: Reach, network: Network, tmp_path: Path, python: str) -> None:
    """An interpreter that is not there: its path is said, and what to name instead."""
    board = network.board("bare", entry={"python": python})
    with pytest.raises(DeviceError) as caught:
        reach(board.entry)
    assert python in str(caught.value)
    assert "python" in caught.value.hint.lower()
    assert board.quiet()


def test_no_python_at_all(reach: Reach, network: Network, tmp_path: Path) -> None:
    """A board without any Python: the places that were tried are said."""
    empty = network.folder / "bin"
    empty.mkdir()
    for name in ("sh", "env", "uname"):
        (empty / name).symlink_to(f"/bin/{name}")
    entry = {"python": ""}
    board = network.board("none", environment={"PATH": str(empty)}, entry=entry)
    with pytest.raises(DeviceError) as caught:
        reach(board.entry)
    assert "python3" in str(caught.value)
    assert board.quiet()


@pytest.fixture
def bare_python(network: Network) -> Path:
    """An interpreter without any packages: what a new board has."""
    folder = network.folder / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def test_runtime_missing(reach: Reach, network: Network, bare_python: Path, tmp_path: Path) -> None:
    """Without onnxruntime the board still says what it is, and a job says what is missing."""
    board = network.board("new", entry={"python": str(bare_python)})
    target = reach(board.entry)
    facts = target.request("probe", deadline_s=120)
    assert facts["ok"]
    assert facts["architecture"]
    assert "onnxruntime" in facts["runtime_error"] or "numpy" in facts["runtime_error"]
    model, feeds = material(tmp_path)
    reply = target.request(
        "bench", deadline_s=120, **bench_job(target.put(model), target.put(feeds))
    )
    assert reply["error"]["code"] == "runtime_missing"
    assert reply["error"]["hint"]
    target.close()
    assert board.quiet()


def test_runtime_crashes_at_import(reach: Reach, network: Network, tmp_path: Path) -> None:
    """A runtime built for another processor dies of an illegal instruction: the agent does not.

    A package that kills its process with that signal stands in for such a build.
    """
    fake = network.folder / "fake" / "onnxruntime"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    entry = {"environment": {"PYTHONPATH": str(fake.parent)}}
    board = network.board("crash", entry=entry)
    target = reach(board.entry)
    facts = target.request("probe", deadline_s=120)
    assert facts["ok"], "the board itself is fine"
    assert "SIGILL" in facts["runtime_error"]
    model, feeds = material(tmp_path)
    reply = target.request(
        "bench", deadline_s=120, **bench_job(target.put(model), target.put(feeds))
    )
    assert reply["error"]["code"] == "crash"
    assert reply["error"]["phase"] == "import"
    assert "SIGILL" in reply["error"]["text"]
    target.close()
    assert board.quiet()


def test_noisy_login_shell(reach: Reach, network: Network, tmp_path: Path) -> None:
    """A login shell that greets on stdout and stderr disturbs neither jobs nor files."""
    board = network.board("noisy")
    greeting = 'echo "Welcome to {\\"this\\": 1}"; printf "no newline {"; echo warning >&2\n'
    for name in (".bashrc", ".profile", ".bash_profile", ".zshenv"):
        (board.home / name).write_text(greeting)
    target = reach(board.entry)
    examine(target, tmp_path)
    target.close()
    assert board.quiet()


def endless(folder: Path) -> tuple[Path, Path]:
    """A model whose one run takes for ever: a loop of 2^60 rounds."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Sin", ["state"], ["next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [8]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [8]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["rounds", "yes", "x"], ["y"], body=body)],
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])],
        [
            helper.make_tensor("rounds", TensorProto.INT64, [], [1 << 60]),
            helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model, feeds = folder / "endless.onnx", folder / "endless.npz"
    onnx.save(proto, str(model))
    write_feeds([{"x": np.ones(8, np.float32)}], feeds)
    return model, feeds


def test_hung_run(reach: Reach, board: Board, tmp_path: Path) -> None:
    """A run that never ends is stopped on the board at its deadline, and its process is gone."""
    target = reach(board.entry)
    model, feeds = endless(tmp_path)
    arguments = {"model": target.put(model), "feeds": target.put(feeds), "settings": dict(SETTINGS)}
    reply = target.request("footprint", deadline_s=6, **arguments)
    assert reply["error"]["code"] == "timeout"
    assert not [each for each in board.processes() if "--job" in each.command]
    assert job_runs(target, tmp_path), "the board works again"
    target.close()
    assert board.quiet()


@pytest.fixture
def little_memory(tmp_path: Path) -> Iterator[Group]:
    """A control group with 400 MB."""
    try:
        group = Group(tmp_path, memory_bytes=400 << 20)
    except OSError as error:
        pytest.skip(f"limiting a board's memory needs root and control groups: {error}")
    yield group
    group.remove()


def test_out_of_memory_kill(
    little_memory: Group, network: Network, reach: Reach, tmp_path: Path
) -> None:
    """The kernel kills a job for memory: a result with its reason, and the agent lives on."""
    board = network.board("small", entry={"python": str(little_memory.python)})
    graph = helper.make_graph(
        [
            helper.make_node("Expand", ["x", "shape"], ["wide"]),
            helper.make_node("Sin", ["wide"], ["sines"]),
            helper.make_node("ReduceSum", ["sines"], ["y"], keepdims=0),
        ],
        "hungry",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [helper.make_tensor("shape", TensorProto.INT64, [1], [300_000_000])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model, feeds = tmp_path / "hungry.onnx", tmp_path / "hungry.npz"
    onnx.save(proto, str(model))
    write_feeds([{"x": np.ones(1, np.float32)}], feeds)
    target = reach(board.entry)
    arguments = {"model": target.put(model), "feeds": target.put(feeds), "settings": dict(SETTINGS)}
    reply = target.request("footprint", deadline_s=240, **arguments)
    assert reply["error"]["code"] == "oom", reply
    assert "memory" in reply["error"]["text"]
    assert job_runs(target, tmp_path), "the agent was not what the kernel killed"
    target.close()
    assert board.quiet()
