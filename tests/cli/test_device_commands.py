"""`edgeopt device`: names, checks and messages, as a person meets them."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgeopt.cli.options import complete_device
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.replay import RecordingTarget

Call = Callable[..., Any]


@pytest.fixture
def edgeopt(edgeopt_here: Call) -> Call:
    """In this process; agents have processes of their own all the same."""
    return edgeopt_here


@pytest.fixture
def device(edgeopt: Call, tmp_path: Path) -> Call:
    """`edgeopt device` of a user who has a home folder, a devices file, and an ssh host."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host rock\n  HostName 192.0.2.1\n")

    def call(*arguments: object, **environment: str) -> Any:
        own = {
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": "",
            "EDGEOPT_SSH_CONFIG": str(tmp_path / ".ssh" / "config"),
        }
        own["EDGEOPT_DEVICES"] = str(tmp_path / "devices.toml")
        return edgeopt("device", *arguments, **{**own, **environment})

    return call


def statuses(text: str) -> dict[str, str]:
    """Status by name of the check; the worst where a name stands twice."""
    order = ["OK", "NOTE", "WARN", "FAIL"]
    found: dict[str, str] = {}
    for line in text.splitlines():
        status, name = line.split()[:2]
        if order.index(status) >= order.index(found.get(name, "OK")):
            found[name] = status
    return found


def test_adding_listing_and_removing(device: Call, tmp_path: Path):
    """What was added is listed with where it stands, and is gone after removing."""
    done = device("add", "pi5", "--host", "pi@pi5.lan", "--python", "/opt/venv/bin/python")
    assert done.code == 0, done.err
    assert "edgeopt device check pi5" in done.out
    listed = json.loads(device("list", "--json").out)
    assert [each["name"] for each in listed["devices"]] == ["local", "pi5"]
    assert listed["devices"][1] == {
        "name": "pi5",
        "kind": "ssh",
        "host": "pi@pi5.lan",
        "python": "/opt/venv/bin/python",
        "origin": str(tmp_path / "devices.toml"),
        "last_check": None,
    }
    assert listed["ssh_hosts"] == ["rock"]
    table = device("list").out
    assert "ssh pi@pi5.lan" in table
    assert "rock" in table
    assert device("remove", "pi5").code == 0
    assert "pi5" not in device("list").out
    again = device("remove", "pi5")
    assert again.code == 2
    assert "no device 'pi5'" in again.err


def test_devices_of_the_environment_are_listed(device: Call):
    """As a CI job has them."""
    done = device("list", "--json", EDGEOPT_DEVICE_MY_ORIN="ssh://nv@192.0.2.7:2222")
    found = json.loads(done.out)["devices"][1]
    assert (found["name"], found["host"]) == ("my-orin", "ssh://nv@192.0.2.7:2222")
    assert found["origin"] == "EDGEOPT_DEVICE_MY_ORIN"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "a b"), "cannot be the name"),
        (("add", "pi5", "--profile", "jetson-oorin"), "no such hardware profile"),
        (("add", "pi5", "--provider", "tensorrt"), "TensorrtExecutionProvider"),
        (("add", "pi5", "--host", "-oProxyCommand=x"), "user@host"),
        (("add", "pi5", "--twin", "pi6"), "no such device"),
        (("add", "local"), "always this machine"),
        (("profiles", "nonsense"), "no hardware profile"),
        (("setup", "local"), "runs edgeopt itself"),
        (("clean", "pi 5"), "pi 5"),
        (("clean", "local", "--days", "-1"), "--days"),
    ],
)
def test_what_cannot_be_is_a_message_and_exit_code_2(
    device: Call, arguments: tuple[str, ...], said: str
):
    """Never a trace."""
    done = device(*arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_wrong_file_names_file_and_key(device: Call, tmp_path: Path):
    """With the nearest key."""
    (tmp_path / "devices.toml").write_text('[devices.pi5]\nhots = "x"\n')
    done = device("list")
    assert done.code == 2
    assert str(tmp_path / "devices.toml") in done.err
    assert "devices.pi5.hots" in done.err
    assert "'host'" in done.err


def test_checking_this_machine(device: Call):
    """Every part is looked at, and a provider is proven by running a model."""
    done = device("check", "local")
    found = statuses(done.out)
    assert done.code == 0, done.out
    wanted = {"name", "agent", "python", "folder", "onnxruntime", "provider", "profile", "load"}
    assert wanted <= found.keys()
    assert "a small model ran" in done.out
    (told,) = json.loads(device("list", "--json").out)["devices"]
    assert told["last_check"]["status"] in {"OK", "WARN"}


def test_cleaning_a_device_says_what_it_frees(device: Call, tmp_path: Path):
    """By the days that nothing was used, or all of it; as text, and as a document."""
    cache = tmp_path / "agent"
    device("add", "box", "--kind", "local", "--cache-dir", str(cache), "--python", sys.executable)
    for name, age_s in (("a" * 64, 40 * 86400), ("b" * 64, 3 * 86400), ("c" * 64, 3600)):
        (cache / "blobs").mkdir(parents=True, exist_ok=True)
        (cache / "blobs" / name).write_bytes(b"x" * 1000)
        then = time.time() - age_s
        os.utime(cache / "blobs" / name, (then, then))
    done = device("clean", "box")
    assert done.code == 0, done.err
    assert "1 kB freed (blobs: 1)" in done.out
    told = json.loads(device("clean", "box", "--days", "2", "--json").out)
    assert (told["device"], told["freed_bytes"], told["kept"]) == (
        "box",
        1000,
        {"blobs": 1},
    )
    assert "1 kB freed" in device("clean", "box", "--all").out
    assert list((cache / "blobs").iterdir()) == []


def test_a_board_on_which_somebody_measures_is_told(device: Call, tmp_path: Path):
    """What does not need the board is said all the same."""
    cache = tmp_path / "agent"
    cache.mkdir()
    device("add", "lab", "--kind", "local", "--python", sys.executable, "--cache-dir", cache)
    with (cache / "device.lock").open("w") as stream:
        stream.write(json.dumps({"user": "ada", "host": "desk", "pid": 7, "since": 0}))
        stream.flush()
        fcntl.flock(stream, fcntl.LOCK_EX)
        busy = device("check", "lab")
    assert "measuring for ada at desk" in busy.out
    assert statuses(busy.out)["lock"] == "WARN"
    assert statuses(busy.out)["onnxruntime"] == "OK"
    assert statuses(device("check", "lab").out)["lock"] == "OK"


def test_a_recorded_device_says_what_it_said_then(device: Call, tmp_path: Path):
    """Nothing is asked that nobody recorded, and it cannot be set up."""
    with RecordingTarget(LocalTarget(), tmp_path / "then.jsonl") as live:
        live.request("probe", deadline_s=60.0)
    (tmp_path / "devices.toml").write_text(
        '[devices.then]\nkind = "replay"\nrecording = "then.jsonl"\n'
    )
    done = device("check", "then")
    assert done.code == 0, done.out
    found = statuses(done.out)
    assert (found["agent"], found["onnxruntime"]) == ("NOTE", "OK")
    assert "load" not in found
    refused = device("setup", "then")
    assert refused.code == 2
    assert "recording" in refused.err


def test_checking_a_host_that_is_not_there(device: Call):
    """The name is explained, the connection fails with its cure, and nothing else is claimed."""
    done = device("check", "nowhere.invalid", "--json")
    assert done.code == 3
    (told,) = json.loads(done.out)["devices"]
    assert not told["ok"]
    assert [(each["name"], each["status"]) for each in told["checks"]] == [
        ("name", "OK"),
        ("connection", "FAIL"),
    ]
    assert "nowhere.invalid" in told["checks"][1]["text"]


def test_a_misspelt_name_offers_the_right_one(device: Call):
    """Also when ssh is what fails in the end."""
    assert "did you mean 'rock'" in device("check", "rokc").out


def test_one_bad_device_does_not_hide_the_others(device: Call, tmp_path: Path):
    """All are checked, the exit code is that of the worst."""
    (tmp_path / "devices.toml").write_text(
        '[devices.lab]\nkind = "local"\npython = "/nowhere/python"\n'
        '[devices.odd]\nprofile = "nonsense"\n'
    )
    done = device("check", "odd", "lab", "local", "--json")
    assert done.code == 3
    told = json.loads(done.out)["devices"]
    assert [each["ok"] for each in told] == [False, False, True]
    assert "nonsense" in told[0]["checks"][0]["text"]
    assert "/nowhere/python" in told[1]["checks"][-1]["text"]


def test_doctor_counts_the_devices(device: Call, edgeopt: Call, tmp_path: Path):
    """Or says what is wrong with their file."""
    path = tmp_path / "devices.toml"
    path.write_text("[devices.pi5]\n")
    told = edgeopt("doctor", "--json", EDGEOPT_DEVICES=str(path)).out
    lines = {each["name"]: each for each in json.loads(told)["checks"]}
    assert "pi5" in lines["devices"]["text"]
    path.write_text("[devices.pi5]\nhots = 1\n")
    done = edgeopt("doctor", EDGEOPT_DEVICES=str(path))
    assert done.code == 3
    assert "devices.pi5.hots" in done.out


def test_profiles_are_listed_and_printed(device: Call):
    """One of them as its file is, with the sources of its facts."""
    table = device("profiles").out
    assert "generic-arm64" in table
    text = device("profiles", "generic-arm64").out
    assert 'name = "generic-arm64"' in text
    assert "[sources]" in text
    one = json.loads(device("profiles", "generic-arm64", "--json").out)["profiles"]
    assert [each["name"] for each in one] == ["generic-arm64"]


def test_names_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Devices and ssh hosts alike; of a list, its last name."""
    (tmp_path / "devices.toml").write_text("[devices.rock-5b]\n")
    (tmp_path / "config").write_text("Host rock\nHost pi5\n")
    monkeypatch.setenv("EDGEOPT_DEVICES", str(tmp_path / "devices.toml"))
    monkeypatch.setenv("EDGEOPT_SSH_CONFIG", str(tmp_path / "config"))
    assert complete_device("ro") == ["rock", "rock-5b"]
    assert complete_device("local,rock-") == ["local,rock-5b"]


def test_setup_asks_first(device: Call, tmp_path: Path, bare_python: Path):
    """Without a terminal and without --yes nothing is done, and the plan was told."""
    device("add", "lab", "--kind", "local", "--python", bare_python, "--cache-dir", tmp_path / "c")
    done = device("setup", "lab")
    assert done.code == 2
    assert "--yes" in done.err
    plan = device("setup", "lab", "--dry-run")
    assert plan.code == 0
    assert "onnxruntime" in plan.out
    assert not list((tmp_path / "c").glob("venv*"))


def test_a_missing_runtime_names_the_right_wheel(device: Call, tmp_path: Path, bare_python: Path):
    """And how to get it there."""
    device("add", "lab", "--kind", "local", "--python", bare_python, "--cache-dir", tmp_path / "c")
    done = device("check", "lab")
    assert done.code == 3
    assert statuses(done.out)["onnxruntime"] == "FAIL"
    assert "the right one is onnxruntime" in done.out
    assert "edgeopt device setup lab" in done.out


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter without numpy and onnxruntime."""
    import subprocess

    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"
