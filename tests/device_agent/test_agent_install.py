"""`install`: wheels become an environment, or nothing changes and the reason is told."""

import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.local import LocalTarget

RUNTIME = '__version__ = "9.8.7"\n'


def wheel(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """A wheel with these files."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in files.items():
            archive.writestr(place, text)
    return path


def packages(folder: Path, runtime: str = RUNTIME) -> list[Path]:
    """The two packages that the check at the end imports."""
    return [
        wheel(folder, "numpy", {"numpy/__init__.py": "", "numpy-1.0.dist-info/METADATA": ""}),
        wheel(folder, "onnxruntime", {"onnxruntime/__init__.py": runtime}),
    ]


def install(
    cache: Path, wheels: list[Path], python: str = sys.executable, *, adopt: bool = True
) -> Mapping[str, Any]:
    """The agent's reply."""
    with LocalTarget(python=python, environment={"EDGEOPT_CACHE": str(cache)}) as target:
        sent = [{"name": path.name, "place": str(path)} for path in wheels]
        return target.request("install", deadline_s=120.0, wheels=sent, adopt=adopt)


def test_wheels_become_an_environment_that_imports_them(tmp_path: Path):
    """Under a name that stays; the second time nothing is left to do."""
    cache = tmp_path / "agent's folder"
    reply = install(cache, packages(tmp_path))
    assert reply["ok"], reply
    assert reply["python"] == str(cache / "venv" / "bin" / "python")
    assert (reply["runtime"], reply["new"]) == ("9.8.7", True)
    again = install(cache, packages(tmp_path))
    assert again["ok"], again
    assert not again["new"]


def test_what_is_not_adopted_yet_is_not_the_runtime(tmp_path: Path):
    """It can be tried under its own name, and goes when another one is adopted."""
    cache = tmp_path / "cache"
    tried = install(cache, packages(tmp_path), adopt=False)
    assert Path(tried["python"]).is_file()
    assert not (cache / "venv").exists()
    more = [*packages(tmp_path), wheel(tmp_path, "extra", {"extra.py": ""})]
    assert install(cache, more)["ok"]
    assert not Path(tried["python"]).exists()


def test_a_folder_that_is_in_the_way_is_left_alone(tmp_path: Path):
    """Somebody's own environment under that name."""
    (tmp_path / "cache" / "venv").mkdir(parents=True)
    reply = install(tmp_path / "cache", packages(tmp_path))
    assert "not a link" in reply["error"]["text"]


def test_the_environment_is_found_from_within_itself(tmp_path: Path):
    """An agent that runs in it sets up the same again, and an other one beside itself."""
    cache = tmp_path / "cache"
    first = install(cache, packages(tmp_path))
    again = install(cache, packages(tmp_path), first["python"])
    assert (again["ok"], again["new"]) == (True, False)
    more = [*packages(tmp_path), wheel(tmp_path, "extra", {"extra.py": ""})]
    other = install(cache, more, first["python"])
    assert (other["ok"], other["new"]) == (True, True), other
    assert len(list(cache.glob("venv-*"))) == 2
    assert install(cache, more, other["python"])["ok"]
    assert len(list(cache.glob("venv-*"))) == 1


def test_only_what_is_imported_is_unpacked(tmp_path: Path):
    """`platlib` goes where modules are found, scripts nowhere, and no path leads outside."""
    files = {
        "pack-1.data/platlib/inner/module.py": "",
        "pack-1.data/purelib/pure.py": "",
        "pack-1.data/scripts/tool": "",
        "../../../../escaped.py": "",
        "/absolute.py": "",
    }
    cache = tmp_path / "cache"
    reply = install(cache, [*packages(tmp_path), wheel(tmp_path, "pack", files)])
    assert reply["ok"], reply
    found = {path.name for path in cache.rglob("*.py")}
    assert {"module.py", "pure.py"} <= found
    assert not found & {"escaped.py", "absolute.py"}
    assert not list(cache.rglob("tool"))
    assert not list(tmp_path.rglob("escaped.py"))


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [
        ("raise ImportError('no libGL')\n", "no libGL"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n", "signal 4"),
    ],
)
def test_a_runtime_that_cannot_be_imported_changes_nothing(
    tmp_path: Path, runtime: str, reason: str
):
    """The environment that worked stays the one that is used."""
    cache = tmp_path / "cache"
    first = install(cache, packages(tmp_path))
    (tmp_path / "newer").mkdir()
    broken = [*packages(tmp_path / "newer", runtime), wheel(tmp_path, "extra", {"extra.py": ""})]
    reply = install(cache, broken)
    assert reply["error"]["code"] == "install_failed"
    assert reason in reply["error"]["text"]
    assert install(cache, packages(tmp_path), first["python"])["runtime"] == "9.8.7"


def test_what_is_no_wheel_is_refused(tmp_path: Path):
    """A cut-off download, for example."""
    path = tmp_path / "numpy-1.0-py3-none-any.whl"
    path.write_bytes(b"PK\x03\x04 cut off")
    reply = install(tmp_path / "cache", [path])
    assert "numpy-1.0-py3-none-any.whl is no wheel" in reply["error"]["text"]


def test_an_interrupted_unpacking_is_done_again(tmp_path: Path):
    """A folder without its last file is not believed."""
    cache = tmp_path / "cache"
    install(cache, packages(tmp_path))
    (folder,) = cache.glob("venv-*")
    os.remove(folder / "edgeopt-complete")
    (module,) = folder.rglob("onnxruntime/__init__.py")
    module.unlink()
    reply = install(cache, packages(tmp_path))
    assert (reply["ok"], reply["new"]) == (True, True)


def test_health_says_what_a_check_looks_at(tmp_path: Path):
    """Interpreter, folder, memory, and the state that measurements see."""
    with LocalTarget(environment={"EDGEOPT_CACHE": str(tmp_path / "c")}) as target:
        found = target.request("health", deadline_s=60.0, window_s=0.1)
    assert found["ok"], found
    assert found["executable"] == sys.executable
    assert found["cache_free_bytes"] > 0
    assert {"temperature_c", "clock_hz"} <= found["state"].keys()
    assert found["processors"] >= 1
