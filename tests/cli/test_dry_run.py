"""A plan changes nothing."""

import pytest

from tests.conftest import DIGITS

RUN = ["run", DIGITS / "digits.onnx", "--data", DIGITS / "digits.npz", "--trials", "1"]
RUN += ["--budget", "20s", "--strategy", "random", "--actions", "rewrite", "--out", "report"]


def test_a_plan_keeps_no_study(edgeopt_here):
    """Nothing was asked yet. That it forgets no trial is tried beside a study, in tests/api."""
    done = edgeopt_here(*RUN, "--dry-run")
    assert done.code == 0, done.err
    assert "within" in done.out
    assert edgeopt_here("report").code == 5


def test_a_plan_trains_nothing(edgeopt_here):
    """To make a candidate that is trained would take its minutes; what is cut is named all the
    same."""
    pytest.importorskip("torch", reason="nothing is trained without torch: edgeopt[rl]")
    other = {"rewrite": "rewrite,prune,repair", "20s": "10m"}
    command = [other.get(str(item), item) for item in RUN]
    done = edgeopt_here(*command, "--dry-run")
    assert done.code == 0, done.err
    assert "half_width" in done.out
    assert "distil" not in done.out + done.err
