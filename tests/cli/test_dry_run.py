"""A plan changes nothing."""

from tests.conftest import DIGITS

RUN = ["run", DIGITS / "digits.onnx", "--data", DIGITS / "digits.npz", "--trials", "1"]
RUN += ["--budget", "20s", "--strategy", "random", "--actions", "rewrite", "--out", "report"]


def test_a_plan_keeps_no_study(edgeopt_here):
    """Nothing was asked yet. That it forgets no trial is tried beside a study, in tests/api."""
    done = edgeopt_here(*RUN, "--dry-run")
    assert done.code == 0, done.err
    assert "within" in done.out
    assert edgeopt_here("report").code == 5
