"""The transcript in docs/gate.md is what its commands really print."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DIGITS, ROOT


def _steps() -> list[tuple[str, str]]:
    """Each command of the transcript with what is shown below it."""
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    shown = text.partition("```console\n")[2].partition("```")[0]
    steps: list[tuple[str, str]] = []
    for line in shown.splitlines(keepends=True):
        command, output = steps[-1] if steps else ("", "")
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif line.startswith(">"):
            steps[-1] = (command + line[1:].removeprefix(" "), output)
        else:
            steps[-1] = (command, output + line)
    return steps


def _without_days(text: str) -> str:
    """Days are those of the reader."""
    return re.sub(r"\d+ days left", "N days left", re.sub(r"\d{4}-\d\d-\d\d", "DAY", text))


@pytest.mark.skipif(
    subprocess.run(["date", "-d", "+1 day"], capture_output=True, check=False).returncode != 0,
    reason="this machine's `date` knows no `-d`",
)
def test_the_transcript(tmp_path: Path):
    """From a folder with one model over a red gate to a green one, in less than ten commands."""
    steps = _steps()
    assert len(steps) < 10
    codes = re.findall(r"exit code (\d)", "".join(output for _, output in steps))
    assert codes == ["1", "0", "0"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "edgeopt").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m edgeopt "$@"\n'
    )
    (tmp_path / "bin" / "edgeopt").chmod(0o755)
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(DIGITS / "digits.onnx", folder / "net.onnx")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for command, output in steps:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert _without_days(done.stdout) == _without_days(output), command
