"""The agent must parse and run on Python 3.6, which this host's linters do not know."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import edgeopt

FOLDER = Path(edgeopt.__file__).parent / "device_agent"
FILES = sorted(FOLDER.rglob("*.py"))
OWN = {path.stem for path in FILES} | {path.name for path in FOLDER.iterdir() if path.is_dir()}
# What a device has: the standard library of 3.6, numpy, onnxruntime.
ALLOWED = set(sys.stdlib_module_names) | {"numpy", "onnxruntime"} | OWN
BANNED_MODULES = {"dataclasses", "contextvars", "importlib.metadata", "importlib.resources"}
BANNED_NAMES = {
    "perf_counter_ns",
    "monotonic_ns",
    "time_ns",
    "process_time_ns",
    "removeprefix",
    "removesuffix",
    "fromisoformat",
    "cached_property",
    "get_running_loop",
    "isascii",
}
BANNED_KEYWORDS = {"capture_output", "text", "missing_ok", "dirs_exist_ok", "strict"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_parses_as_python_3_6(path: Path) -> None:
    """No walrus, no positional-only parameters, no f-string `=`, no later statement."""
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.NamedExpr)
        if isinstance(node, ast.arguments):
            assert not node.posonlyargs
        if isinstance(node, ast.ImportFrom):
            assert node.module != "__future__"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_uses_only_what_a_device_has(path: Path) -> None:
    """Standard library, numpy, onnxruntime and its own modules; nothing newer than 3.6."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "inside the zipapp modules have plain names"
            names = [node.module or ""]
        else:
            names = []
        for name in names:
            assert name.partition(".")[0] in ALLOWED
            assert name not in BANNED_MODULES
        if isinstance(node, ast.Attribute):
            assert node.attr not in BANNED_NAMES
        if isinstance(node, ast.keyword):
            assert node.arg not in BANNED_KEYWORDS


def test_vermin_finds_nothing_newer(tmp_path: Path) -> None:
    """Functions, members and arguments of the library too; it does see a later one."""
    program = Path(sys.executable).with_name("vermin")
    check = [program, "-t=3.6-", "--no-tips", "--quiet"]
    assert subprocess.run([*check, FOLDER], check=False).returncode == 0
    later = tmp_path / "later.py"
    later.write_text("import time; time.time_ns()")
    assert subprocess.run([*check, later], check=False).returncode != 0


def test_the_check_sees_what_it_bans() -> None:
    """The parser of 3.6 really refuses later syntax."""
    with pytest.raises(SyntaxError):
        ast.parse("if (n := 1): pass", feature_version=(3, 6))
