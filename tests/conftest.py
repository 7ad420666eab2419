"""What tests of every room may use."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

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


@pytest.fixture
def edgeopt(tmp_path: Path) -> Callable[..., Finished]:
    """The command line in a process of its own, working in an empty folder."""

    def call(*arguments: object, cwd: Path = tmp_path, **environment: str) -> Finished:
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

    return call


@pytest.fixture(scope="session", autouse=True)
def own_board_lock(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Agents of this run of the tests wait for each other, and not for those of another run.

    The lock of the board lies in the folder for temporary files.
    """
    os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("tmp"))
