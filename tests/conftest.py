"""What tests of every room may use."""

import contextlib
import functools
import io
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from edgeopt.cli import app

# A landing must not depend on luck: in CI the same examples are drawn every time. Elsewhere they
# are drawn anew, and what they find becomes a test.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "models" / "digits"


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str


def called(*arguments: object, cwd: Path, **environment: str) -> Finished:
    """The command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "edgeopt", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=570,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def called_here(*arguments: object, cwd: Path, **environment: str) -> Finished:
    """The command line in this process, otherwise as `called`.

    It saves the start of an interpreter and the import of the runtime, one to three seconds a call.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    before, code = signal.getsignal(signal.SIGINT), None
    with pytest.MonkeyPatch.context() as process, warnings.catch_warnings():
        process.setattr(sys, "argv", ["edgeopt", *map(str, arguments)])
        process.chdir(cwd)
        for name, value in environment.items():
            process.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                app.run()
            except SystemExit as stop:
                code = stop.code
            finally:
                signal.signal(signal.SIGINT, before)
    assert isinstance(code, int)
    return Finished(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@pytest.fixture
def edgeopt(tmp_path: Path) -> Callable[..., Finished]:
    """The command line in a process of its own, working in an empty folder."""
    return functools.partial(called, cwd=tmp_path)


@pytest.fixture
def edgeopt_here(tmp_path: Path) -> Callable[..., Finished]:
    """The same in this process; a test file whose every call may be one has it as `edgeopt`."""
    return functools.partial(called_here, cwd=tmp_path)


@pytest.fixture(scope="session", autouse=True)
def own_board_lock(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Agents of this run of the tests wait for each other, and not for those of another run.

    The lock of the board lies in the folder for temporary files.
    """
    os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("tmp"))
