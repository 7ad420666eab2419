"""`edgeopt device setup`: a device without a runtime gets one, or stays as it was."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def lab(edgeopt: Call, tmp_path: Path) -> Call:
    """`edgeopt device` beside a bare interpreter, named as a command so that files are sent."""
    folder = tmp_path / "bare python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (tmp_path / "devices.toml").write_text(
        "# my lab\n[devices.lab]\n"
        'kind = "local"\n'
        f"exec = \"'{folder}/bin/python' -u\"\n"
        f'cache_dir = "{tmp_path}/agent"\n'
    )

    def call(*arguments: object, **environment: str) -> Any:
        own = {"EDGEOPT_DEVICES": str(tmp_path / "devices.toml")}
        return edgeopt("device", *arguments, **own, **environment)

    return call


@pytest.mark.network
def test_a_bare_interpreter_is_set_up_and_then_fine(lab: Call, tmp_path: Path):
    """Wheels are fetched here, sent, unpacked and proven; the devices file follows."""
    assert lab("check", "lab").code == 3
    done = lab("setup", "lab", "--yes", "--json")
    if done.code == 3 and "could not be downloaded" in done.err:
        pytest.skip(f"no package index can be reached: {done.err.strip()}")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["new"]
    text = (tmp_path / "devices.toml").read_text()
    assert text.startswith("# my lab\n")
    assert f"{tmp_path}/agent/venv/bin/python -u" in text
    checked = json.loads(lab("check", "lab", "--json").out)["devices"][0]
    found = {each["name"]: each for each in checked["checks"]}
    assert checked["ok"], checked
    assert found["onnxruntime"]["text"] == f"version {told['runtime']}"
    assert found["provider"]["status"] == "OK"
    again = lab("setup", "lab", "--yes", "--json")
    assert not json.loads(again.out)["new"]


def test_without_wheels_it_says_where_to_point_pip(lab: Call, tmp_path: Path):
    """A machine without a network, or behind a mirror."""
    done = lab("setup", "lab", "--yes", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert done.code == 3
    assert "could not be downloaded" in done.err
    assert "PIP_INDEX_URL" in done.err


def test_a_runtime_that_runs_no_model_is_not_taken(lab: Call, tmp_path: Path):
    """It can be imported, and that proves nothing: the devices file stays as it was."""
    for name in ("numpy", "onnxruntime"):
        with zipfile.ZipFile(tmp_path / f"{name}-9.9-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}/__init__.py", '__version__ = "9.9"\n')
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n"
            metadata += "Requires-Dist: numpy\n" if name == "onnxruntime" else ""
            archive.writestr(f"{name}-9.9.dist-info/METADATA", metadata)
            archive.writestr(
                f"{name}-9.9.dist-info/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            archive.writestr(f"{name}-9.9.dist-info/RECORD", "")
    before = (tmp_path / "devices.toml").read_text()
    done = lab("setup", "lab", "--yes", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert done.code == 3, done.err
    assert "has no attribute" in done.err
    assert not (tmp_path / "agent" / "venv").exists()
    assert (tmp_path / "devices.toml").read_text() == before
