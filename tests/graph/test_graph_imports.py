"""Modules that are loaded when something in them is used: onnx_ir without sympy."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from edgeopt.graph.without_sympy import later

LIBRARY = """
import late_other
from late_library import late_inner
def answer():
    return late_other.value + late_inner.value
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A library that imports two modules at its top; each notes here that it was run."""
    folder = tmp_path / "late_library"
    folder.mkdir()
    note = "import builtins\nbuiltins.late_ran.append(__name__)\nvalue = 1\n"
    (folder / "__init__.py").write_text(LIBRARY)
    (folder / "late_inner.py").write_text(note)
    (tmp_path / "late_other.py").write_text(note)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names: list[str] = []
    monkeypatch.setattr("builtins.late_ran", names, raising=False)
    yield names
    for name in [name for name in sys.modules if name.startswith("late_")]:
        del sys.modules[name]


def library(*names: str):
    """The library, imported while these modules wait."""
    with later(*names):
        return import_module("late_library")


def test_modules_wait_for_their_first_use(ran: list[str]):
    """A package and a module inside the library alike, and each runs once."""
    found = library("late_other", "late_library.late_inner")
    assert ran == []
    assert found.answer() == found.answer() == 2
    assert ran == ["late_other", "late_library.late_inner"]


def test_others_get_the_module_itself(ran: list[str]):
    """Nothing stands in its place in sys.modules afterwards, and both see the same module."""
    found = library("late_other", "late_library.late_inner")
    assert not {"late_other", "late_library.late_inner"} & set(sys.modules)
    late_other = import_module("late_other")

    vars(late_other)["value"] = 5
    assert found.answer() == 6
    assert ran == ["late_other", "late_library.late_inner"]


def test_what_the_library_uses_at_once_is_loaded_at_once(ran: list[str]):
    """A newer version may need it while it is imported itself."""
    with later("late_other"):
        late_other = import_module("late_other")

        assert late_other.value == 1
    assert ran == ["late_other"]
    assert isinstance(sys.modules["late_other"].__file__, str)


def test_what_is_loaded_stays(ran: list[str]):
    """The library gets it as usual."""
    late_other = import_module("late_other")

    found = library("late_other", "late_library.late_inner")
    assert sys.modules["late_other"] is late_other
    assert ran == ["late_other"]
    assert found.answer() == 2


def test_what_is_not_installed_is_said_when_it_is_needed(ran: list[str]):
    """By the error that its import would have been."""
    with later("late_missing"):
        late_missing = import_module("late_missing")
    with pytest.raises(ModuleNotFoundError, match="late_missing"):
        _ = late_missing.value


def test_dimensions_are_computed_as_ever():
    """The one use that onnx_ir has of sympy, and others' own import of it."""
    code = (
        "import edgeopt.graph, sys, onnx_ir\n"
        "assert 'sympy' not in sys.modules\n"
        "dimension = onnx_ir.SymbolicDim('N*2+1')\n"
        "import sympy.core.numbers, sympy\n"
        "assert onnx_ir.SymbolicDim(sympy.Symbol('K')).value == 'K'\n"
        "print((dimension - 1) // 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("N", "")
