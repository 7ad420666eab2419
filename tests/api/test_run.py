"""The whole loop on a real small model: what a user gets; nothing is lost or done twice."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgeopt as package
from edgeopt.api.run import RunResult
from tests.conftest import DIGITS, called

pytestmark = pytest.mark.alone
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "digits.npz"
# Fourteen hold the given model, our first guesses, and the tools that a user would try first.
RUN = ["run", str(MODEL), "--data", str(DATA), "--trials", "14", "--max-drop", "3pt", "--json"]
RUN += ["--objectives", "latency,accuracy,size", "--out", "report"]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> tuple[Path, dict]:
    """One finished run, shared by the tests of this file."""
    folder = tmp_path_factory.mktemp("study")
    done = called(*RUN, cwd=folder)
    assert done.code == 0, done.err
    return folder, json.loads(done.out)


@pytest.fixture
def edgeopt(edgeopt_here):
    """In this process: what reads a study needs none of its own."""
    return edgeopt_here


def _front(document):
    return document["fronts"]["local"]


def _latest(folder: Path) -> dict:
    """What the last run said: a next one measures what was invalid again."""
    return json.loads((folder / "report" / "report.json").read_text())


def test_the_front_has_what_was_promised(study):
    """Paired latency interval, size, peak memory, accuracy on both parts, probes, a recipe."""
    _, document = study
    assert len(_front(document)) >= 2
    for member in _front(document):
        metrics = member["metrics"]
        assert {"latency", "size", "peak_memory", "accuracy", "accuracy_test"} <= metrics.keys()
        assert any(name.startswith("accuracy@") for name in metrics)
        interval = metrics["latency"]["interval"]
        assert interval["low"] <= metrics["latency"]["value"] <= interval["high"]
        assert Path(member["model"]).is_file()


def test_baseline_and_usual_ways_are_among_the_trials(study):
    """What a user would ship without edgeopt was measured like everything else."""
    _, document = study
    labels = {candidate.get("label") for candidate in document["candidates"]["local"]}
    assert "baseline" in labels
    assert any(label and label.startswith("ort_static") for label in labels)
    assert document["baseline"]["local"]["metrics"]["latency"]["value"] > 0


def test_nothing_is_called_faster_whose_interval_contains_one(study):
    """Words follow the interval, not the point."""
    _, document = study
    for candidate in document["candidates"]["local"]:
        ratio = candidate.get("ratio")
        if ratio and ratio["relation"] == "faster":
            assert ratio["high"] < 1


def test_report_files_are_there(study):
    """HTML, Markdown, JSON and CSV, and the JSON is what stdout said."""
    folder, document = study
    names = {path.name for path in (folder / "report").iterdir()}
    assert {"report.html", "report.md", "report.json", "trials.csv"} <= names
    written = json.loads((folder / "report" / "report.json").read_text())
    assert written["fronts"] == document["fronts"]


def test_the_same_command_measures_nothing_again(study):
    """Every trial is in the store; the second run only reports.

    Measurements that are invalid are no knowledge: those, and what follows from them, are made
    again, on a machine that was too busy.
    """
    folder, _ = study
    document, before = _latest(folder), _numbers(folder)
    unknown = _invalid(folder)
    done = called(*RUN, cwd=folder)
    assert done.code == 0, done.err
    after = _numbers(folder)
    assert set(before) <= set(after)
    assert max(Counter((key, protocol) for _, key, protocol in after).values()) == 1
    if unknown:
        return
    assert after == before
    again = json.loads(done.out)
    assert [m["id"] for m in _front(again)] == [m["id"] for m in _front(document)]


def test_replay_gives_the_same_model(study, edgeopt):
    """Same structural digest, and on this machine the same weights, from the recipe alone."""
    folder, _ = study
    document = _latest(folder)
    for member in _front(document):
        if not any(line and not line.startswith("#") for line in member["recipe"][3:]):
            continue
        recipe = folder / f"{member['id']}.txt"
        recipe.write_text("\n".join(member["recipe"]) + "\n")
        again = folder / f"{member['id']}.onnx"
        done = edgeopt("replay", recipe, "--on", MODEL, "--data", DATA, "--out", again, cwd=folder)
        assert done.code == 0, done.err
        assert again.read_bytes() == Path(member["model"]).read_bytes()


def test_replay_on_retrained_weights(study, edgeopt):
    """The same decisions on a net trained with another seed: valid, verified, other weights."""
    folder, _ = study
    document = _latest(folder)
    other = DIGITS / "digits-seed1.onnx"
    member = max(_front(document), key=lambda m: len(m["recipe"]))
    recipe = folder / "retrained.txt"
    recipe.write_text("\n".join(member["recipe"]) + "\n")
    out = folder / "retrained.onnx"
    done = edgeopt(
        "replay", recipe, "--on", other, "--data", DATA, "--out", out, "--json", cwd=folder
    )
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["same_baseline"] is False
    onnx.checker.check_model(onnx.load(out))
    assert out.read_bytes() != Path(member["model"]).read_bytes()


def test_export_runs_with_numpy_and_onnxruntime_alone(study, edgeopt):
    """The folder's verify script imports nothing else, and notices a changed output."""
    folder, _ = study
    document = _latest(folder)
    fastest = _front(document)[0]["id"]
    done = edgeopt("export", document["study"]["id"], fastest, "--out", "exported", cwd=folder)
    assert done.code == 0, done.err
    place = folder / "exported"
    names = {path.name for path in place.iterdir()}
    assert {"model.onnx", "recipe.txt", "runtime.json", "card.md", "verify.py"} <= names
    ran = _python(place, ISOLATED)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with np.load(place / "outputs.npz") as held:
        changed = {key: held[key] + 1 for key in held}
    np.savez(place / "outputs.npz", **changed)
    ran = _python(place, "import runpy; runpy.run_path('verify.py', run_name='__main__')")
    assert ran.returncode == 6


ISOLATED = """
import runpy, sys
try:
    runpy.run_path("verify.py", run_name="__main__")
finally:
    roots = {name.split(".")[0] for name in sys.modules}
    assert not roots & {"edgeopt", "onnx", "onnx_ir"}, roots
"""


def _python(place: Path, code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False
    )


def test_pick_keeps_the_limits(study, edgeopt):
    """A limit excludes; an impossible one says so with exit code 5."""
    folder, _ = study
    document = _latest(folder)
    sizes = sorted(m["metrics"]["size"]["value"] for m in _front(document))
    done = edgeopt("pick", "--max", f"size={sizes[0] / 1000:.3f}kB", "--json", cwd=folder)
    assert done.code == 0, done.err
    assert json.loads(done.out)["pick"]["metrics"]["size"]["value"] == sizes[0]
    assert edgeopt("pick", "--max", "size=1b", cwd=folder).code == 5


def test_report_again_in_every_format(study, edgeopt):
    """From the store alone, without model and data."""
    folder, _ = study
    assert edgeopt("report", "--format", "md", cwd=folder).code == 0
    page = edgeopt("report", "--format", "terminal", cwd=folder)
    assert page.code == 0
    assert len(page.out.strip().splitlines()) <= 25
    again = json.loads(edgeopt("report", "--json", cwd=folder).out)
    assert _without_layers(again) == _without_layers(_latest(folder))
    assert all(member["layers"] for member in _front(again))


def _without_layers(document):
    """A run has a limited time for reading layers; a report reads what is missing."""
    return [
        {key: value for key, value in member.items() if not key.startswith("layers")}
        for member in _front(document)
    ]


@pytest.fixture(scope="module")
def without_data(tmp_path_factory) -> tuple[Path, RunResult, list[str]]:
    """A run from Python, without data; its folder, result and lines."""
    folder, lines = tmp_path_factory.mktemp("exact"), []
    with pytest.MonkeyPatch.context() as process:
        process.chdir(folder)
        objectives = ("latency", "accuracy")
        found = package.run(
            MODEL, trials=4, budget="3m", objectives=objectives, progress=lines.append
        )
    return folder, found, lines


def test_a_model_without_data_gets_exact_actions_only(without_data):
    """No accuracy, no quantization, and it says what is not known."""
    _, result, lines = without_data
    assert len(lines) >= 4
    assert result.front["local"]
    for candidate in result.document["candidates"]["local"]:
        assert "accuracy" not in candidate["metrics"]
        assert not any("static_qdq" in line for line in candidate["recipe"])
    assert any("no data" in sentence for sentence in result.document["unknown"]["local"])


def test_a_plan_forgets_no_trial(without_data, edgeopt):
    """Also where it is a plan to begin anew; from the command line it is the same study."""
    folder, result, _ = without_data
    before = _trials(folder, "true")
    assert before
    words = ("--trials", "4", "--objectives", "latency,accuracy", "--dry-run", "--fresh", "--json")
    done = edgeopt("run", MODEL, *words, cwd=folder)
    assert done.code == 0, done.err
    assert json.loads(done.out)["study"] == result.document["study"]["id"]
    assert _trials(folder, "true") == before


def _numbers(folder: Path) -> list[tuple[int, str, str]]:
    return _trials(folder, "status != 'invalid'")


def _invalid(folder: Path) -> list[tuple[int, str, str]]:
    return _trials(folder, "status = 'invalid'")


def _trials(folder: Path, which: str) -> list[tuple[int, str, str]]:
    with sqlite3.connect(next((folder / ".edgeopt").glob("*.sqlite*"))) as connection:
        return connection.execute(
            f"select number, key, protocol from trial where {which}"
        ).fetchall()


def _count(folder: Path) -> int:
    """Trials so far, of a run that may just be making its store."""
    try:
        return len(_trials(folder, "true"))
    except (StopIteration, sqlite3.OperationalError):
        return 0


def test_killed_at_any_moment_it_goes_on(tmp_path):
    """kill -9 before the first trial, after it, in the search; then the same command.

    Nothing is measured twice, nothing is lost. Each moment is a random one after a trial.
    """
    command = ["run", MODEL, "--data", DATA, "--trials", "5", "--strategy", "random", "--json"]
    command += ["--objectives", "latency,accuracy"]
    moments = random.Random(7)
    seen: set[tuple[int, str, str]] = set()
    for wanted in (0, 1, 3):
        process = subprocess.Popen(
            [sys.executable, "-m", "edgeopt", *map(str, command)],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and _count(tmp_path) < wanted:
            time.sleep(0.1)
        time.sleep(moments.uniform(0.5, 4.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if _count(tmp_path):
            held = set(_numbers(tmp_path))
            assert seen <= held
            seen = held
    assert _count(tmp_path) >= 3
    done = called(*command, cwd=tmp_path)
    assert done.code == 0, done.err
    rows = _numbers(tmp_path)
    assert seen <= set(rows)
    assert max(Counter((key, protocol) for _, key, protocol in rows).values()) == 1
    document = json.loads(done.out)
    held = {f"c{number}" for number, _, _ in rows}
    assert {member["id"] for member in _front(document)} <= held
