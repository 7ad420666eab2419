"""The base model of a comparison: a file, or the same path at another revision in git."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgeopt.core.model import Model
from edgeopt.errors import ModelError, UsageError
from edgeopt.graph.read import read_model

_POINTER = b"version https://git-lfs.github.com/spec"
_TIMEOUT_S = 120
_OF_HOOKS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What the model is compared with.

    Args:
        model: Opened.
        words: For people: the file, or the revision.
    """

    model: Model
    words: str


def open_base(spec: str, model: Path, folder: Path) -> Base:
    """The base model.

    Args:
        spec: A file, or `git:REF` for the model's own path at that revision.
        model: The model under the gate.
        folder: Where a file out of the repository is put.

    Raises:
        UsageError: There is no such revision or no such file in it; history may be missing.
        ModelError: It is no model.
    """
    if not spec.startswith("git:"):
        return Base(model=read_model(Path(spec)), words=spec)
    reference, model = spec.removeprefix("git:"), model.resolve()
    content = _shown(reference, model)
    made = folder / f"base-{model.name}"
    made.write_bytes(content)
    try:
        return Base(model=read_model(made), words=f"{model.name} at {reference}")
    except ModelError as error:
        raise ModelError(
            error.what,
            where=f"{model.name} at {reference}",
            hint="where its data lie in files beside it, give it as a file: --base FILE",
        ) from error


def _shown(reference: str, model: Path) -> bytes:
    """The bytes of the model's path at a revision, through LFS where it holds a pointer."""
    where = f"{model.name} at {reference}"
    _revision(reference, model.parent)
    shown = _git(model.parent, "show", f"{reference}:./{model.name}")
    if shown.returncode:
        raise UsageError(
            f"git has no such file: {_said(shown)}",
            where=where,
            hint="it may be new there; leave out what compares with a base, or give --base FILE",
        )
    if not shown.stdout.startswith(_POINTER):
        return shown.stdout
    if _git(model.parent, "lfs", "version").returncode:
        raise UsageError(
            "the repository holds a Git LFS pointer, and git-lfs is not installed here",
            where=where,
            hint=f"install git-lfs, then `git lfs fetch origin {_branch(reference)}`; "
            "in actions/checkout, lfs: true",
        )
    smudged = _git(model.parent, "lfs", "smudge", given=shown.stdout)
    if smudged.returncode or smudged.stdout.startswith(_POINTER):
        raise UsageError(
            f"the repository holds a Git LFS pointer, and the file behind it is not here: "
            f"{_said(smudged)}",
            where=where,
            hint=f"run `git lfs fetch origin {_branch(reference)}` first",
        )
    return smudged.stdout


def _revision(reference: str, folder: Path) -> None:
    inside = _git(folder, "rev-parse", "--show-toplevel")
    if inside.returncode:
        raise UsageError(
            f"git cannot be asked here: {_said(inside)}",
            where=str(folder),
            hint="give --base FILE",
        )
    found = _git(folder, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
    if found.returncode == 0:
        return
    shallow = _git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    raise UsageError(
        f"git knows no revision {reference!r}",
        where=str(folder),
        hint="this clone is shallow: fetch the history, for example with `fetch-depth: 0` in "
        "actions/checkout, or `git fetch --unshallow`"
        if shallow
        else "write a branch, a tag or a commit; of a remote branch, origin/NAME",
    )


def _git(
    folder: Path, *words: str, given: bytes | None = None
) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            input=given,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            # A hook of git names a repository by these, which would be taken for the folder's.
            env={key: value for key, value in os.environ.items() if key not in _OF_HOOKS},
        )
    except FileNotFoundError as error:
        raise UsageError("there is no git here", hint="give --base FILE") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git {words[0]} took over {_TIMEOUT_S} s", hint="try again") from error


def _branch(reference: str) -> str:
    """As the remote calls it."""
    return reference.removeprefix("origin/")


def _said(done: "subprocess.CompletedProcess[bytes]") -> str:
    """What git complains of; the lines before and after it are advice."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line]
    complaints = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (complaints or lines[-1:] or ["it said nothing"])[0]
