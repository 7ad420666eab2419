"""`edgeopt gate` as a project uses it: on this machine, with git, with and without its lock."""

import json
import platform
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

from edgeopt import shipped
from tests.conftest import DIGITS, called_here

STATIC = '[[gate.budget]]\nmetric = "size"\nmax = "200 kB"\n'
MEASURED = '[[gate.budget]]\nmetric = "latency.p50"\ndevice = "local"\nmax = "10 s"\n'


@pytest.fixture
def edgeopt(edgeopt_here):
    """In this process: git and agents have processes of their own all the same."""
    return edgeopt_here


@pytest.fixture
def project(tmp_path) -> Path:
    """A folder with one model and one budget."""
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "net.onnx")
    _write(tmp_path, STATIC)
    return tmp_path


def _write(folder: Path, budgets: str) -> None:
    text = f'[gate]\nmodel = "net.onnx"\nprotocol = "quick"\n# ours\n{budgets}'
    (folder / "edgeopt.toml").write_text(text)


def _grow(folder: Path) -> None:
    """Another model at the same place, larger."""
    model = onnx.load(folder / "net.onnx")
    model.doc_string = "x" * 100_000
    onnx.save(model, folder / "net.onnx")


@pytest.fixture(scope="module")
def lock(tmp_path_factory) -> Path:
    """A lock measured here, unless other work leaves no processor for it: for all that read one."""
    folder = tmp_path_factory.mktemp("locked")
    shutil.copy(DIGITS / "digits.onnx", folder / "net.onnx")
    _write(folder, MEASURED + 'max_regression = "3%"\n')
    done = called_here("gate", "update", cwd=folder)
    if done.code == 4 and "no measurement on local can be used" in done.err:
        pytest.skip(f"this machine is too busy to measure: {done.err}")
    assert done.code == 0, done.out + done.err
    return folder / "edgeopt.lock"


def test_green_red_waived(project, edgeopt):
    """A budget that is kept, missed, and accepted for a while; comments stay."""
    assert edgeopt("gate", "check", cwd=project).code == 0
    _grow(project)
    red = edgeopt("gate", "check", cwd=project)
    assert red.code == 1
    assert "edgeopt.toml:5" in red.out
    words = ("--until", "2999-01-01", "--reason", "new head", "--ceiling", "300 kB")
    assert edgeopt("gate", "waive", "size", *words, cwd=project).code == 0
    assert "# ours" in (project / "edgeopt.toml").read_text()
    green = edgeopt("gate", "check", cwd=project)
    assert green.code == 0
    assert "new head" in green.out
    told = edgeopt("gate", "explain", "size", cwd=project)
    assert "2999-01-01" in told.out


def test_what_proves_nothing_is_never_green(project, edgeopt):
    """No budgets, no lock, a device that is away, a file that is missing."""
    _write(project, "")
    assert edgeopt("gate", "check", cwd=project).code == 5
    _write(project, MEASURED)
    assert edgeopt("gate", "check", "--no-measure", cwd=project).code == 4
    _write(project, MEASURED.replace("local", "no-such-board.invalid"))
    assert edgeopt("gate", "check", cwd=project).code == 3
    (project / "net.onnx").unlink()
    assert edgeopt("gate", "check", cwd=project).code == 2


def test_arithmetic_of_free_sizes_is_no_figure(project, edgeopt):
    """Sizes that are free would count as 1: it says which, and the run is not green."""
    model = onnx.load(project / "net.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    onnx.save(model, project / "net.onnx")
    _write(project, '[[gate.budget]]\nmetric = "macs"\nmax = "1G"\n')
    done = edgeopt("gate", "check", cwd=project)
    assert done.code == 4, done.out + done.err
    assert f"{model.graph.input[0].name}[2]" in done.out + done.err


@pytest.mark.alone
def test_receipts_stand_in_for_the_device(project, edgeopt, lock):
    """For this very model; not for another one, and not once the lock is gone."""
    _write(project, MEASURED)
    shutil.copy(lock, project)
    done = edgeopt("gate", "check", "--no-measure", "--format", "json", cwd=project)
    assert done.code == 0, done.out + done.err
    assert json.loads(done.out)["findings"][0]["evidence"]["origin"] == "receipt"
    _grow(project)
    assert edgeopt("gate", "check", "--no-measure", cwd=project).code == 4
    shutil.copy(DIGITS / "digits.onnx", project / "net.onnx")
    (project / "edgeopt.lock").unlink()
    assert edgeopt("gate", "check", "--no-measure", cwd=project).code == 4


@pytest.mark.alone
def test_measured_now(project, edgeopt):
    """Beside another model; what is written to files is the same verdict."""
    _write(project, MEASURED + 'max_regression = "900%"\n')
    shutil.copy(DIGITS / "digits-seed1.onnx", project / "base.onnx")
    forms = ("--format", "junit=out.xml", "--format", "text")
    done = edgeopt("gate", "check", "--base", "base.onnx", "--time", "1s", *forms, cwd=project)
    assert done.code in (0, 4), done.out + done.err  # a busy machine may decide nothing
    assert "<testsuites>" in (project / "out.xml").read_text()


def test_a_change_of_nothing_needs_no_device(project, edgeopt):
    """The very same file as the base has not become slower."""
    away = MEASURED.replace("local", "no-such-board.invalid").replace('max = "10 s"', "")
    _write(project, away + 'max_regression = "1%"\n')
    done = edgeopt("gate", "check", "--base", "net.onnx", cwd=project)
    assert done.code == 0, done.out + done.err


def _git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(project) -> Path:
    """Two revisions: the model grew in the second."""
    _write(project, '[[gate.budget]]\nmetric = "size"\nmax_regression = "5%"\n')
    _git(project, "init", "-b", "main")
    _git(project, "add", ".")
    _git(project, "commit", "-m", "one")
    _grow(project)
    _git(project, "commit", "-am", "two")
    return project


def test_a_base_out_of_git(repository, edgeopt):
    """The same path at another revision."""
    assert edgeopt("gate", "check", "--base", "git:HEAD", cwd=repository).code == 0
    assert edgeopt("gate", "check", "--base", "git:HEAD~1", cwd=repository).code == 1


def test_inside_github_it_annotates_and_summarises(project, edgeopt, monkeypatch):
    """By itself, beside the text."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    _grow(project)
    done = edgeopt("gate", "check", "--json", cwd=project)
    assert done.code == 1
    assert "::error file=edgeopt.toml,line=5" in done.err
    assert json.loads(done.out)["exit_code"] == 1
    assert "MISSED" in (project / "summary.md").read_text()


def test_a_server_knows_files_from_its_root(project, edgeopt):
    """Below a repository, and with a summary that cannot be written: the verdict stands."""
    (project / "sub").mkdir()
    for name in ("edgeopt.toml", "net.onnx"):
        (project / name).rename(project / "sub" / name)
    _grow(project / "sub")
    server = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(project),
        "GITHUB_STEP_SUMMARY": str(project / "nowhere" / "summary.md"),
    }
    unwritable = ("--format", f"junit={project}/nowhere/x.xml", "--format", "text")
    done = edgeopt("gate", "check", cwd=project / "sub", **server)
    assert done.code == 1
    assert "::error file=sub/edgeopt.toml,line=5" in done.err
    assert "there is no job summary" in done.err
    done = edgeopt("gate", "check", *unwritable, cwd=project / "sub")
    assert done.code == 3
    assert "1 MISSED" in done.out
    assert "x.xml: it cannot be written" in done.err


@pytest.mark.alone
def test_the_same_model_is_green_without_a_device(project, edgeopt, lock):
    """A limit and a change in one budget, a receipt, and a base that is the very same file."""
    _write(project, MEASURED + 'max_regression = "3%"\n')
    shutil.copy(lock, project)
    done = edgeopt("gate", "check", "--no-measure", "--base", "net.onnx", cwd=project)
    assert done.code == 0, done.out + done.err


def test_a_device_that_is_away_writes_no_lock(project, edgeopt):
    """Also where a receipt is there already."""
    _write(project, MEASURED.replace("local", "no-such-board.invalid"))
    done = edgeopt("gate", "update", cwd=project)
    assert done.code == 3
    assert not (project / "edgeopt.lock").exists()


def test_a_waiver_never_spoils_the_file(project, edgeopt):
    """Waivers that stand inline are left alone, with the reason."""
    _write(project, STATIC.replace("[[gate.budget]]", "waiver = []\n[[gate.budget]]"))
    before = (project / "edgeopt.toml").read_text()
    words = ("--until", "2999-01-01", "--reason", "x")
    assert edgeopt("gate", "waive", "size", *words, cwd=project).code == 2
    assert (project / "edgeopt.toml").read_text() == before


def test_an_unknown_profile_is_said_with_its_line(project, edgeopt):
    """As everything that is wrong in the file."""
    budget = '[[gate.budget]]\nmetric = "unsupported_ops"\nprofile = "toaster"\nmax = 0\n'
    _write(project, budget)
    done = edgeopt("gate", "check", cwd=project)
    assert done.code == 2
    assert "edgeopt.toml:5" in done.err


@pytest.mark.alone
def test_the_devices_of_the_file_from_another_folder(project, edgeopt):
    """`-c sub/edgeopt.toml` measures on that file's own devices, with its own profiles."""
    device = '[devices.board]\nkind = "local"\nprofile = "ours"\n'
    _write(project, MEASURED.replace("local", "board") + device)
    profiles = project / "hardware_profiles"
    profiles.mkdir()
    shutil.copy(shipped.folder("hardware_profiles") / "x86-avx2.toml", profiles / "ours.toml")
    text = (profiles / "ours.toml").read_text().replace('name = "x86-avx2"', 'name = "ours"')
    machine = platform.machine()
    (profiles / "ours.toml").write_text(text.replace('"x86_64"', f'"{machine}"'))
    (project / "elsewhere").mkdir()
    words = ("gate", "check", "-c", "../edgeopt.toml", "--time", "1s", "--format", "json")
    done = edgeopt(*words, cwd=project / "elsewhere")
    (finding,) = json.loads(done.out)["findings"]
    if "no measurement on board can be used" in finding["message"]:
        pytest.skip(f"this machine is too busy to measure: {finding['message']}")
    assert finding["evidence"]["origin"] == "measured", done.out + done.err
