"""What holds for the repository as a whole: rooms, shelves, sizes, cost of importing."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from edgeopt import plugins

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "edgeopt"
LINES = 450
HEAVY = (
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "torch",
    "pymoo",
    "gymnasium",
    "scipy",
    "pandas",
)
HOME = re.compile(r"(?<![\w.])/(?:home|Users|root|work|mnt|data/users)/[\w.-]+|/tmp/\w|C:\\Users")
TEXT = {".py", ".md", ".toml", ".txt", ".json", ".yaml", ".yml", ".cfg", ".html", ".sh", ""}


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def modules() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def tracked() -> list[Path]:
    """Every text file under version control; everything beside a checkout's caches without git."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        pytest.skip("this is no checkout")
    files = [ROOT / name for name in done.stdout.split("\0") if name]
    return [file for file in files if file.suffix in TEXT and file.is_file()]


def test_rooms_import_only_what_they_may(monkeypatch: pytest.MonkeyPatch):
    """The import contracts of pyproject.toml."""
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == 0


def test_files_stay_small():
    """A file that grows beyond the cap holds two things."""
    long = {
        str(file.relative_to(ROOT)): count
        for file in modules()
        if (count := len(file.read_text("utf-8").splitlines())) > LINES
    }
    assert not long, f"over {LINES} lines: {long}"


def test_every_module_says_what_it_is():
    """A docstring, in every file that has any content."""
    silent = [
        str(file.relative_to(ROOT))
        for file in modules()
        if (text := file.read_text("utf-8")).strip() and not re.match(r'(#.*\n)*r?"""', text)
    ]
    assert not silent


def test_transform_names_are_unique_across_shelves():
    """A recipe names a transform without its shelf."""
    names = Counter(name for shelf in plugins.TRANSFORMS for name in shelf.names())
    assert not [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("kind", sorted(plugins.SHELVES))
def test_names_fit_into_a_recipe(kind: str):
    """Plug-ins are called like files and words: small letters, digits, underscores."""
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in plugins.SHELVES[kind].names())


def test_shelves_are_listed_without_importing():
    """`--help` and completion must not pay for a runtime."""
    loaded = run(
        "import sys\n"
        "from edgeopt import plugins\n"
        "names = [shelf.names() for shelf in plugins.SHELVES.values()]\n"
        "assert any(names)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert loaded == "[]"


@pytest.mark.parametrize("module", ["edgeopt", "edgeopt.__main__", "edgeopt.cli.app"])
def test_the_command_line_starts_light(module: str):
    """No heavy library is loaded before a command is known."""
    loaded = run(
        f"import sys, {module}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert loaded == "[]"


APIS = ("run", "report", "compare", "pick", "measure", "gate", "gate_update", "export")


@pytest.mark.parametrize("module", APIS)
def test_no_command_loads_sympy(module: str):
    """onnx_ir imports it for computed dimensions; it takes longer than most commands' own work."""
    loaded = run(f"import sys, edgeopt.api.{module}\nprint('sympy' in sys.modules)")
    assert loaded == "False"


def test_a_static_gate_loads_what_files_need_only(tmp_path: Path):
    """It runs before every commit: no runtime, no store, no templates, nothing of devices."""
    from edgeopt.testing import graphs

    graphs.write(graphs.conv_bn(), tmp_path, "net.onnx")
    (tmp_path / "edgeopt.toml").write_text(
        '[gate]\nmodel = "net.onnx"\n'
        + "".join(
            f'[[gate.budget]]\nmetric = "{metric}"\nmax = "900{unit}"\n'
            for metric, unit in (("size", " MB"), ("macs", "G"), ("ops", ""))
        )
    )
    never = {*HEAVY, "sqlalchemy", "jinja2", "onnxoptimizer", "psutil", "sympy"}
    never -= {"numpy", "onnx", "onnx_ir"}
    asked = ["edgeopt", "gate", "check", "--static", "-c", str(tmp_path / "edgeopt.toml")]
    loaded = run(
        "import sys\n"
        "from edgeopt.cli.app import run\n"
        f"sys.argv = {asked!r}\n"
        "try:\n    run()\n"
        "except SystemExit as stop:\n    assert not stop.code\n"
        f"print([name for name in {sorted(never)!r} if name in sys.modules])"
    )
    assert loaded.splitlines()[-1] == "[]"


def test_public_names():
    """What `import edgeopt` offers; nothing else is promised."""
    import edgeopt

    assert sorted(edgeopt.__all__) == ["__version__", "run"]
    assert callable(edgeopt.run)
    assert re.fullmatch(r"\d+\.\d+\.\d+", edgeopt.__version__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = edgeopt.nonsense


def test_no_file_names_a_place_on_somebodys_machine():
    """Absolute paths of a home or a work folder mean nothing elsewhere."""
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match.group()}"
        for file in tracked()
        for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), start=1)
        if (match := HOME.search(line)) and file != Path(__file__)
    ]
    assert not found


def test_shared_test_modules_have_different_names():
    """They are imported by their bare names, from the folders on pytest's path."""
    path = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    folders = path["tool"]["pytest"]["ini_options"]["pythonpath"]
    shared = [
        file.name for folder in folders if folder != "." for file in (ROOT / folder).glob("*.py")
    ]
    names = Counter(name for name in shared if not name.startswith(("test_", "conftest")))
    assert not [name for name, count in names.items() if count > 1]
