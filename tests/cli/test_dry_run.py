"""A plan changes nothing."""

import sqlite3

from tests.conftest import DIGITS

RUN = ["run", DIGITS / "digits.onnx", "--data", DIGITS / "digits.npz", "--trials", "1"]
RUN += ["--budget", "20s", "--strategy", "random", "--out", "report"]


def _count(folder) -> int:
    with sqlite3.connect(folder / ".edgeopt" / "trials.sqlite") as store:
        return store.execute("select count(*) from trial").fetchone()[0]


def test_a_plan_forgets_no_trial(edgeopt, tmp_path):
    """Also where it is a plan to begin anew."""
    assert edgeopt(*RUN).code in {0, 1}
    before = _count(tmp_path)
    assert before >= 1
    done = edgeopt(*RUN, "--dry-run", "--fresh")
    assert done.code == 0, done.err
    assert "within" in done.out
    assert _count(tmp_path) == before


def test_a_plan_keeps_no_study(edgeopt, tmp_path):
    """Nothing was asked yet."""
    assert edgeopt(*RUN, "--dry-run").code == 0
    assert edgeopt("report").code == 5
