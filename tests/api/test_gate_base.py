"""`--base git:REF` on real repositories: plain, shallow, with Git LFS, and none at all."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgeopt.api.gate_base import Base, open_base
from edgeopt.errors import ModelError, UsageError
from edgeopt.graph.read import read_model
from tests.conftest import DIGITS

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n"
needs_lfs = pytest.mark.skipif(
    shutil.which("git-lfs") is None, reason="git-lfs is not installed: `apt install git-lfs`"
)


def _git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
    command = ["git", *identity, "-c", "protocol.file.allow=always", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def _first(folder: Path) -> str:
    """The first model of the repository."""
    shutil.copy(DIGITS / "digits.onnx", folder / "net.onnx")
    return read_model(folder / "net.onnx").digest


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", ".")
    _git(folder, "commit", "-m", message)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two revisions of one model, in a folder whose name has a space and a letter beyond ASCII."""
    folder = tmp_path / "größe 1"
    folder.mkdir()
    _git(folder, "init", "-b", "main")
    _first(folder)
    _commit(folder, "one")
    shutil.copy(DIGITS / "digits-seed1.onnx", folder / "net.onnx")
    _commit(folder, "two")
    return folder


def _base(reference: str, folder: Path, out: Path) -> Base:
    return open_base(f"git:{reference}", folder / "net.onnx", out)


def _refused(reference: str, folder: Path, out: Path) -> str:
    with pytest.raises(UsageError) as caught:
        _base(reference, folder, out)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_another_revision(repository: Path, tmp_path: Path):
    """By branch, by commit before, and from below the repository's root."""
    now = read_model(repository / "net.onnx").digest
    assert _base("main", repository, tmp_path).model.digest == now
    before = _base("HEAD~1", repository, tmp_path)
    assert before.model.digest == read_model(DIGITS / "digits.onnx").digest
    assert before.words == "net.onnx at HEAD~1"
    (repository / "deep").mkdir()
    (repository / "net.onnx").rename(repository / "deep" / "net.onnx")
    _commit(repository, "moved")
    assert _base("HEAD", repository / "deep", tmp_path).model.digest == now
    assert "may be new there" in _refused("HEAD~1", repository / "deep", tmp_path)


def test_a_file_that_is_new(repository: Path, tmp_path: Path):
    """It has no base yet."""
    shutil.copy(DIGITS / "digits.onnx", repository / "other.onnx")
    with pytest.raises(UsageError, match="may be new there"):
        open_base("git:HEAD", repository / "other.onnx", tmp_path)


@pytest.mark.parametrize("reference", ["nowhere", "", "--output=x", "HEAD:net.onnx"])
def test_a_revision_that_never_was(repository: Path, tmp_path: Path, reference: str):
    """Also where it looks like an option of git, or like a file."""
    assert "git knows no revision" in _refused(reference, repository, tmp_path)
    assert not list(repository.glob("x*"))


def test_shallow_clones(repository: Path, tmp_path: Path):
    """Other commits and other branches are missing; the message says how to fetch them."""
    _git(repository, "branch", "other", "HEAD~1")
    _git(tmp_path, "clone", "--depth", "1", f"file://{repository}", "clone")
    clone = tmp_path / "clone"
    now = read_model(repository / "net.onnx").digest
    assert _base("HEAD", clone, tmp_path).model.digest == now
    assert _base("origin/main", clone, tmp_path).model.digest == now
    for reference in ("HEAD~1", "origin/other"):
        told = _refused(reference, clone, tmp_path)
        assert "fetch-depth: 0" in told
        assert "--unshallow" in told
    _git(clone, "fetch", "--unshallow")
    assert _base("HEAD~1", clone, tmp_path).model.digest != now


def test_outside_of_a_repository(tmp_path: Path):
    """What git says, and what to give instead."""
    _first(tmp_path)
    told = _refused("HEAD", tmp_path, tmp_path)
    assert "not a git repository" in told
    assert "--base FILE" in told


def test_no_git(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A slim container."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "there is no git here" in _refused("HEAD", repository, tmp_path)


def test_a_base_whose_data_lie_beside_it(repository: Path, tmp_path: Path):
    """What git shows is one file; the rest of the model is not there."""
    (repository / "net.onnx").write_bytes(b"no model")
    _commit(repository, "damaged")
    shutil.copy(DIGITS / "digits.onnx", repository / "net.onnx")
    with pytest.raises(ModelError, match=r"net\.onnx at HEAD"):
        _base("HEAD", repository, tmp_path)


@pytest.fixture
def pointed(repository: Path) -> Path:
    """A repository whose last revision holds a pointer to a file that nobody has."""
    (repository / "net.onnx").write_text(POINTER.format("0" * 64))
    _commit(repository, "pointer")
    _first(repository)
    return repository


def test_a_pointer_without_git_lfs(pointed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It says what to install and what to fetch."""
    git = shutil.which("git")
    assert git is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    told = _refused("HEAD", pointed, tmp_path)
    assert "git-lfs is not installed here" in told
    assert "git lfs fetch origin HEAD" in told


@needs_lfs
def test_a_pointer_to_what_is_not_here(pointed: Path, tmp_path: Path):
    """Git LFS is there, and the file is on no server."""
    told = _refused("HEAD", pointed, tmp_path)
    assert "the file behind it is not here" in told
    assert "git lfs fetch origin HEAD" in told


@needs_lfs
def test_through_large_file_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two revisions behind pointers; a clone that fetched none, then one that has them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    folder = tmp_path / "origin"
    folder.mkdir()
    _git(folder, "init", "-b", "main")
    _git(folder, "lfs", "install")
    _git(folder, "lfs", "track", "*.onnx")
    old = _first(folder)
    _commit(folder, "one")
    shutil.copy(DIGITS / "digits-seed1.onnx", folder / "net.onnx")
    _commit(folder, "two")
    shown = subprocess.run(
        ["git", "show", "HEAD~1:net.onnx"], cwd=folder, check=True, capture_output=True
    )
    assert shown.stdout.startswith(b"version https://git-lfs")
    assert _base("HEAD~1", folder, tmp_path).model.digest == old
    monkeypatch.setenv("GIT_LFS_SKIP_SMUDGE", "1")
    _git(tmp_path, "clone", f"file://{folder}", "clone")
    clone = tmp_path / "clone"
    with pytest.raises(ModelError, match="Git LFS pointer"):
        read_model(clone / "net.onnx")
    monkeypatch.delenv("GIT_LFS_SKIP_SMUDGE")
    assert _base("origin/main~1", clone, tmp_path).model.digest == old
    shutil.rmtree(folder)
    shutil.rmtree(clone / ".git" / "lfs")
    assert "the file behind it is not here" in _refused("HEAD~1", clone, tmp_path)
