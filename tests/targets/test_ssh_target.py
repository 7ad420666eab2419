"""Devices behind ssh, with a program in its place that runs the commands on this machine."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from edgeopt.core.device import DeviceEntry
from edgeopt.core.protocols import Target
from edgeopt.errors import ConnectionLostError, DeviceError
from edgeopt.targets.board import BoardTarget
from edgeopt.targets.connection import LocalConnection, control_folder
from edgeopt.targets.open import open_target
from edgeopt.targets.pipe import Patience
from edgeopt.targets.ssh import SshTarget
from edgeopt.testing.target_exam import SETTINGS, bench_job, examine, material
from tests.targets.fake_ssh import FakeSsh

SHORT = Patience(total_s=1.0, first_s=0.1, longest_s=0.3, repeats=3)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSsh:
    made = FakeSsh(tmp_path / "ssh")
    monkeypatch.setenv("EDGEOPT_SSH", str(made.program))
    monkeypatch.delenv("EDGEOPT_SSH_CONFIG", raising=False)
    return made


@pytest.fixture
def reach(tmp_path: Path, fake: FakeSsh) -> Iterator[Callable[..., SshTarget]]:
    """Opens a board with a folder of its own; closed after the test."""
    opened: list[SshTarget] = []

    def call(**keys: Any) -> SshTarget:
        cache = str(tmp_path / "the board" / "ca'che")
        entry = DeviceEntry(
            **{"name": "jetson", "python": sys.executable, "cache_dir": cache, **keys}
        )
        opened.append(SshTarget(entry, folder=tmp_path / "host", patience=SHORT))
        return opened[-1]

    yield call
    for each in opened:
        each.close()


def refused(reach: Callable[..., SshTarget], **keys: Any) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        reach(**keys)
    assert "jetson" in caught.value.where
    assert caught.value.hint
    return caught.value


def test_takes_the_exam(reach: Callable[..., SshTarget], fake: FakeSsh, tmp_path: Path) -> None:
    """The protocol is kept, past a greeting that ends without a line break, in odd folders."""
    fake.behave(motd='Welcome!\n{"not": "ours"}\nlast login: today ')
    target = reach()
    assert isinstance(target, Target)
    examine(target, tmp_path)


def test_options(reach: Callable[..., SshTarget], fake: FakeSsh) -> None:
    """Never asks, never accepts a key, keeps alive, one connection, one remote command."""
    reach(host="user@orin").request("hello", deadline_s=60, runtime=False)
    for words in fake.calls():
        options = words[: words.index("--")]
        assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10"} <= set(options)
        assert {"ServerAliveInterval=15", "ServerAliveCountMax=3"} <= set(options)
        assert {"ControlMaster=auto", f"ControlPath={control_folder()}/%C"} <= set(options)
        assert words[words.index("--") + 1] == "user@orin"
        assert len(words) == words.index("--") + 3
        assert "\n" not in words[-1]
        assert "\\\\" not in words[-1], "fish would read that as one backslash"


def test_the_user_decides_about_keys(reach: Callable[..., SshTarget], fake: FakeSsh) -> None:
    """Where their configuration accepts new keys, that is not overridden, nor made stricter."""
    fake.behave(facts=["hostname b", "port 22", "stricthostkeychecking accept-new"])
    reach()
    assert not any("StrictHostKeyChecking" in word for call in fake.calls() for word in call)


def test_a_living_master_is_used(reach: Callable[..., SshTarget], fake: FakeSsh) -> None:
    """The user is logged in already: their connection carries ours. A dead one does not."""
    facts = ["hostname b", "port 22", "controlpath /run/user/1/cm"]
    fake.behave(facts=facts, master=True)
    reach()
    assert not any("Control" in word for call in fake.calls() for word in call)
    fake.behave(facts=facts, master=False)
    count = len(fake.calls())
    reach()
    assert all("ControlMaster=auto" in call for call in fake.calls()[count:])


def test_another_configuration(
    reach: Callable[..., SshTarget], fake: FakeSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EDGEOPT_SSH_CONFIG is handed on."""
    monkeypatch.setenv("EDGEOPT_SSH_CONFIG", "/some/where")
    reach()
    assert all(call[:2] == ["-F", "/some/where"] for call in fake.calls())


def test_no_ssh(reach: Callable[..., SshTarget], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an OpenSSH client that is what is said."""
    monkeypatch.setenv("EDGEOPT_SSH", "/nowhere/ssh")
    assert "OpenSSH" in refused(reach).hint


def test_the_agent_is_sent_once(reach: Callable[..., SshTarget], fake: FakeSsh) -> None:
    """The second session finds the agent; a damaged one is replaced."""
    folder = Path(reach()._command[1]).parent
    first = len(fake.calls())
    reach()
    assert (first, len(fake.calls())) == (3, 5)
    (agent,) = folder.glob("agent-*.pyz")
    agent.write_bytes(agent.read_bytes()[:-10])
    reach()
    assert len(fake.calls()) == 8


def test_no_interpreter(reach: Callable[..., SshTarget], fake: FakeSsh, tmp_path: Path) -> None:
    """What was tried is named, and where to say what to take."""
    error = refused(reach, python="/opt/none/python3")
    assert "`/opt/none/python3` (not found)" in error.what
    assert 'python = "' in error.hint
    assert "exec" in error.hint
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("sh", "uname", "env"):
        (empty / name).symlink_to(f"/usr/bin/{name}")
    fake.behave(variables={"PATH": str(empty)})
    error = refused(reach, python="")
    assert "`python3` (not found)" in error.what
    assert "`python` (not found)" in error.what


def interpreter(folder: Path, text: str) -> str:
    path = folder / "other python"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_that_is_too_old(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """Python 3.5 is told by its number, with the way out."""
    answer = '{"version": [3, 5, 2], "cache": "/c", "agent": "/c/a", "problem": "", "free": 1}'
    python = interpreter(tmp_path, f"echo 'edgeopt-bootstrap {answer}'")
    error = refused(reach, python=python)
    assert "Python 3.5.2" in error.what
    assert "3.6" in error.what


def test_an_interpreter_that_breaks(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """Its exit code and its words are told."""
    error = refused(reach, python=interpreter(tmp_path, "echo 'libz is missing' >&2; exit 3"))
    assert "exit code 3" in error.what
    assert "libz is missing" in error.what


def test_a_login_that_runs_nothing(reach: Callable[..., SshTarget], fake: FakeSsh) -> None:
    """An account without a shell is not taken for a missing Python."""
    fake.behave(variables={"PATH": "/nowhere"})
    assert "runs no commands" in refused(reach).what


def test_a_home_that_cannot_be_written(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """The reason of the system, and the key that names another folder."""
    (tmp_path / "file").write_text("")
    error = refused(reach, cache_dir=str(tmp_path / "file" / "cache"))
    assert "Not a directory" in error.what
    assert "cache_dir" in error.hint


def test_variables_reach_the_agent(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """Also where the command hands none on, as a container does."""
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text("MemTotal: 8000 kB\n")
    bare = interpreter(tmp_path, f'exec env -i "{sys.executable}" "$@"')
    target = reach(python=bare, environment={"EDGEOPT_SYSROOT": str(root), "B": "it's $HOME"})
    assert target.request("probe", deadline_s=60)["memory_bytes"] == 8000 * 1024


def test_home_directory(reach: Callable[..., SshTarget], fake: FakeSsh, tmp_path: Path) -> None:
    """`~/` in python and cache_dir means the home there; the agent's own environment is found."""
    home = tmp_path / "home dir"
    (home / "c d" / "venv" / "bin").mkdir(parents=True)
    (home / "c d" / "venv" / "bin" / "python").symlink_to(sys.executable)
    (home / "py").symlink_to(sys.executable)
    fake.behave(variables={"HOME": str(home)})
    assert Path(reach(python="~/py", cache_dir="~/c d")._command[1]).parent == home / "c d"
    assert reach(python="", cache_dir="~/c d")._command[0] == "~/c d/venv/bin/python"


def test_lost_agent_is_replaced(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """kill -9 in the middle of a job: another agent does it; after too many the error is final."""
    model, feeds = material(tmp_path)
    target = reach()
    job = bench_job(target.put(model), target.put(feeds), min_seconds=0.5)
    threading.Timer(1.0, os.kill, (target.pid, signal.SIGKILL)).start()
    assert target.request("bench", deadline_s=60, **job)["ok"]


def test_board_that_stays_away(
    reach: Callable[..., SshTarget], fake: FakeSsh, tmp_path: Path
) -> None:
    """Refused again and again: the connection is lost, by its own name; back again, it works."""
    target = reach()
    fake.behave(stderr="ssh: connect to host board.lan port 22: Connection refused\n")
    os.kill(target.pid, signal.SIGKILL)
    with pytest.raises(ConnectionLostError, match="refused"):
        target.request("hello", deadline_s=60, runtime=False)
    with pytest.raises(ConnectionLostError, match="refused"):
        target.put(material(tmp_path)[0])
    fake.behave()
    assert target.request("hello", deadline_s=60, runtime=False)["ok"]


def test_files_that_went_are_sent_again(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """Another session's quota, or a clean-up, took them: the job runs all the same."""
    model, feeds = material(tmp_path)
    target = reach()
    places = target.put(model), target.put(feeds)
    for place in places:
        Path(place).unlink()
    reply = target.request(
        "footprint", deadline_s=60, model=places[0], feeds=places[1], settings=dict(SETTINGS)
    )
    assert reply["ok"]


def test_only_the_agents_files_come_back(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """A path outside of the agent's folders is refused, and one that is not there is said."""
    target = reach()
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with pytest.raises(DeviceError, match="not a file of the agent"):
        target.fetch(str(secret))
    place = target.put(material(tmp_path)[0])
    Path(place).with_name("leads-out").symlink_to(secret)
    with pytest.raises(DeviceError, match="not a file of the agent"):
        target.fetch(str(Path(place).with_name("leads-out")))
    with pytest.raises(DeviceError, match="No such file"):
        target.fetch(place + "x")
    brought = target.fetch(place)
    assert brought.read_bytes() == Path(place).read_bytes()
    assert not brought.samefile(place)
    target.close()
    assert not brought.exists()


def test_missing_file(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """A file that is not there is the host's error."""
    with pytest.raises(DeviceError, match="no such file"):
        reach().put(tmp_path / "none.onnx")


def test_a_command_on_this_machine(tmp_path: Path) -> None:
    """A local device with `exec` gets its files sent, as a container needs it."""
    entry = DeviceEntry(
        name="box",
        kind="local",
        exec=f"env -u HOME {sys.executable}",
        cache_dir=str(tmp_path / "c"),
    )
    with open_target(entry, folder=tmp_path / "host") as target:
        assert isinstance(target, BoardTarget)
        model, _ = material(tmp_path)
        assert Path(target.put(model)).is_relative_to(tmp_path / "c" / "files")


def test_less_than_the_file_fits(tmp_path: Path) -> None:
    """Quota: what was used longest ago goes first, what the session uses stays."""
    entry = DeviceEntry(
        name="box",
        kind="local",
        exec=sys.executable,
        cache_dir=str(tmp_path / "c"),
        environment={"EDGEOPT_QUOTA_BYTES": "4000000"},
    )
    files = [tmp_path / f"f{number}.bin" for number in range(4)]
    for number, path in enumerate(files):
        path.write_bytes(bytes([number]) * 1_500_000)
    for path in files:
        with BoardTarget(entry, LocalConnection("box"), folder=tmp_path / "host") as target:
            place = Path(target.put(path))
            assert place.read_bytes() == path.read_bytes()
            held = sum(f.stat().st_size for f in (tmp_path / "c" / "blobs").iterdir())
            assert held <= 4_500_000
            os.utime(place.parent, (1, 1))
            for blob in (tmp_path / "c" / "blobs").iterdir():
                os.utime(blob, (1 + files.index(path), 1))
    with BoardTarget(entry, LocalConnection("box"), folder=tmp_path / "host") as target:
        assert target.request("clean", deadline_s=60)["freed_bytes"] > 0
        assert list((tmp_path / "c" / "blobs").iterdir()) == []


def test_outputs_outlive_a_lost_agent(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """kill -9 between the job and the fetch: its file still comes; after a farewell it is gone."""
    model, feeds = material(tmp_path)
    target = reach()
    places = {"model": target.put(model), "feeds": target.put(feeds)}
    reply = target.request("infer", deadline_s=60, **places, settings=dict(SETTINGS))
    os.kill(target.pid, signal.SIGKILL)
    assert target.request("hello", deadline_s=60, runtime=False)["ok"]
    assert target.fetch(reply["outputs"]).stat().st_size > 0
    reply = target.request("infer", deadline_s=60, **places, settings=dict(SETTINGS))
    target.close()
    assert not Path(reply["outputs"]).exists()


def test_external_data_is_found_there(reach: Callable[..., SshTarget], tmp_path: Path) -> None:
    """The runtime on the board opens a model whose weights lie in another file."""
    model, feeds = material(tmp_path)
    onnx.save(
        onnx.load(model),
        str(tmp_path / "split.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    target = reach()
    place = target.put(tmp_path / "split.onnx")
    assert Path(place).with_name("weights.bin").is_file()
    reply = target.request(
        "footprint",
        deadline_s=60,
        model=place,
        feeds=target.put(feeds),
        settings=dict(SETTINGS),
    )
    assert reply["ok"], reply
    assert reply["size_bytes"] > (tmp_path / "split.onnx").stat().st_size
