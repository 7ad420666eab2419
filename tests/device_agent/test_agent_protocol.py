"""The agent over its real pipe: lines in, lines out, and no process left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeopt.targets.bundle import agent_bundle
from edgeopt.targets.local import LocalTarget
from edgeopt.testing.target_exam import SETTINGS, bench_job, material
from tests.device_agent.bare_agent import Pipe, children, gone, wait_for


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agent")


@pytest.fixture
def pipe(place: Path) -> Iterator[Pipe]:
    made = Pipe(agent_bundle(place))
    yield made
    made.end()


@pytest.fixture(scope="module")
def job(place: Path) -> dict[str, Any]:
    model, feeds = material(place)
    return bench_job(str(model), str(feeds))


def start_long_job(pipe: Pipe, job: dict[str, Any]) -> int:
    """Start a bench that would take minutes; the pid of the child that does it."""
    pipe.send("long", "bench", 600.0, **{**job, "min_seconds": 120.0})
    assert wait_for(lambda: children(pipe.process.pid))
    return children(pipe.process.pid)[0]


def test_hello_and_probe(pipe: Pipe) -> None:
    """Versions without a job, and the fingerprint of equal facts is equal."""
    hello = pipe.ask("1", "hello")
    assert (hello["id"], hello["ok"], hello["protocol"]) == ("1", True, 1)
    assert hello["runtime"]["name"] == "onnxruntime"
    probe = pipe.ask("2", "probe")
    assert probe["providers"] == hello["runtime"]["providers"]
    assert probe["fingerprint"].startswith("sha256:")


def test_facts_come_from_the_system_root(place: Path, tmp_path: Path) -> None:
    """A board is told by its files: device tree, ARM feature names, quota, memory."""
    for name, text in {
        "proc/cpuinfo": "processor : 0\nFeatures : fp asimd asimdhp asimddp\n"
        "CPU implementer : 0x41\nCPU part : 0xd0b\n",
        "proc/meminfo": "MemTotal: 8000 kB\nSwapTotal: 0 kB\n",
        "proc/device-tree/model": "Raspberry Pi 5 Model B\0",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
        "etc/os-release": 'PRETTY_NAME="Debian"\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = Pipe(agent_bundle(place), {"EDGEOPT_SYSROOT": str(tmp_path)})
    try:
        facts = made.ask("1", "probe")
    finally:
        made.end()
    assert facts["features"] == ["dotprod", "fp16", "neon"]
    assert facts["board"] == "Raspberry Pi 5 Model B"
    assert facts["cpu_model"] == "implementer 0x41 part 0xd0b"
    assert (facts["cpu_quota"], facts["memory_bytes"]) == (1.5, 8000 * 1024)
    assert (facts["governor"], facts["os"]) == ("ondemand", "Debian")


def test_bad_lines_are_answered(pipe: Pipe) -> None:
    """No JSON, no id, a deadline that is none, an argument that is missing: told, not fatal."""
    pipe.write("hello?")
    assert pipe.read()["error"]["code"] == "bad_request"
    pipe.write('{"verb": "hello"}')
    assert pipe.read()["error"]["code"] == "bad_request"
    pipe.write('{"id": "1", "verb": "hello", "deadline_s": -1}')
    assert pipe.read()["error"]["code"] == "bad_request"
    assert pipe.ask("2", "footprint")["error"]["code"] == "bad_request"
    assert pipe.ask("3", "hello")["ok"]


def test_a_job_is_done_once(pipe: Pipe, job: dict[str, Any]) -> None:
    """The same id again gets the same answer, raw times included; another id is measured anew."""
    first, again = pipe.ask("7", "bench", **job), pipe.ask("7", "bench", **job)
    other = pipe.ask("8", "bench", **job)
    assert first == again
    assert first["candidate"]["blocks"] != other["candidate"]["blocks"]


def test_chatter_on_stdout_does_not_reach_the_host(place: Path, tmp_path: Path) -> None:
    """What anything prints to descriptor 1, in the agent or in a job, goes to stderr."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, threading, time\n"
        "def chatter():\n"
        "    while True:\n"
        "        os.write(1, b'chatter of a runtime\\n')\n"
        "        time.sleep(0.02)\n"
        "threading.Thread(target=chatter, daemon=True).start()\n"
    )
    chatty = {"PYTHONPATH": str(tmp_path)}
    with LocalTarget(environment=chatty) as target:
        assert target.request("probe", deadline_s=60)["ok"]
    made = Pipe(agent_bundle(place), chatty)
    try:
        made.send("1", "hello")
        assert made.process.stdout
        while not made.process.stdout.readline().startswith(b"{"):
            pass
        assert made.ask("2", "hello")["ok"]
    finally:
        made.process.kill()
        _, err = made.process.communicate()
    assert b"chatter" in err


def test_end_of_input_ends_agent_and_job(pipe: Pipe, job: dict[str, Any]) -> None:
    """The host closes the pipe in the middle of a job: agent, job and their files are gone."""
    child = start_long_job(pipe, job)
    assert pipe.process.stdin
    pipe.process.stdin.close()
    assert wait_for(lambda: gone(child))
    assert wait_for(lambda: pipe.process.poll() is not None)


def test_killed_agent_leaves_no_job(pipe: Pipe, job: dict[str, Any]) -> None:
    """kill -9 of the agent: its child dies with it."""
    child = start_long_job(pipe, job)
    pipe.process.kill()
    assert wait_for(lambda: gone(child))


def test_killed_host_leaves_nothing(place: Path, job: dict[str, Any]) -> None:
    """kill -9 of the host process: agent and job end by themselves."""
    program = (
        "import sys, json\n"
        "from edgeopt.targets.local import LocalTarget\n"
        "target = LocalTarget()\n"
        "print(target.pid, flush=True)\n"
        "target.request('bench', deadline_s=600, **json.loads(sys.argv[1]))\n"
    )
    long_job = json.dumps({**job, "min_seconds": 120.0})
    host = subprocess.Popen([sys.executable, "-c", program, long_job], stdout=subprocess.PIPE)
    assert host.stdout
    agent = int(host.stdout.readline())
    assert wait_for(lambda: children(agent))
    child = children(agent)[0]
    host.kill()
    host.communicate()
    assert wait_for(lambda: gone(agent) and gone(child))


def test_killed_job_is_a_result(pipe: Pipe, job: dict[str, Any]) -> None:
    """A signal from outside is a crash with its phase; the next job works."""
    child = start_long_job(pipe, job)
    time.sleep(1.0)
    os.kill(child, signal.SIGSEGV)
    reply = pipe.read()
    assert reply["error"]["code"] == "crash"
    assert "SIGSEGV" in reply["error"]["text"]
    assert pipe.ask("next", "bench", **job)["ok"]


def test_feeds_that_do_not_fit_fail_in_the_run(
    pipe: Pipe, job: dict[str, Any], place: Path
) -> None:
    """The runtime's refusal of a feed is told with the model that it happened to."""
    wrong = place / "wrong.npz"
    np.savez(wrong, **{"0/x": np.zeros((1, 999), np.float32)})
    reply = pipe.ask("1", "bench", **{**job, "feeds": str(wrong)})
    assert reply["error"]["code"] == "run_failed"
    assert reply["error"]["phase"] == "run candidate"
    other = pipe.ask("2", "bench", **{**job, "feeds": str(wrong), "first": "baseline"})
    assert other["error"]["phase"] == "run baseline"


def test_blocks_alternate_and_hold_the_minimum(pipe: Pipe, job: dict[str, Any]) -> None:
    """Every block keeps both minimums and says what it cost."""
    reply = pipe.ask("1", "bench", **{**job, "pairs": 3, "min_runs": 40, "min_seconds": 0.01})
    for side in ("candidate", "baseline"):
        assert reply[side]["warmup"]["runs"] >= 3
        assert len(reply[side]["blocks"]) == 3
        for block in reply[side]["blocks"]:
            assert len(block["times_s"]) * reply[side]["batch"] >= 40
            assert block["wall_s"] >= 0.01
            assert block["cpu_s"] > 0


def test_settings_are_explicit(pipe: Pipe, job: dict[str, Any]) -> None:
    """An unknown setting is refused: the runtime would swallow it silently."""
    reply = pipe.ask("1", "bench", **{**job, "settings": {**SETTINGS, "treads": 2}})
    assert reply["error"]["code"] == "bad_request"


def test_files_of_a_killed_agent_are_swept(place: Path, tmp_path: Path) -> None:
    """kill -9 leaves a folder behind; the next agent removes it, and its own when it ends."""
    temporary = {"TMPDIR": str(tmp_path)}
    first = Pipe(agent_bundle(place), temporary)
    assert first.ask("1", "hello")["ok"]
    first.end()
    left = list(tmp_path.glob("edgeopt-agent-*"))
    assert len(left) == 1
    second = Pipe(agent_bundle(place), temporary)
    assert second.ask("1", "hello")["ok"]
    assert left[0] not in list(tmp_path.glob("edgeopt-agent-*"))
    second.ask("2", "bye")
    assert wait_for(lambda: list(tmp_path.glob("edgeopt-agent-*")) == [])
    second.end()
