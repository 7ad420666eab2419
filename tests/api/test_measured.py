"""Results of `edgeopt measure` are kept, found by an equal question, and aged."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgeopt.api.measured import MeasuredStore
from edgeopt.core.measurement import Value, Verdict
from edgeopt.core.samples import Interval, Samples
from edgeopt.errors import StorageError
from edgeopt.measure.runner import Outcome

KEY = {"model": "sha256:1", "rate_hz": None, "protocol": {"name": "quick"}}
OUTCOME = Outcome(
    values={
        "latency": Value(
            value=0.002,
            unit="s",
            interval=Interval(value=0.002, low=0.001, high=float("inf")),
            samples=Samples(unit="s", blocks=((0.002, 0.003),), baseline=((0.004,),), rounds=(0,)),
        )
    },
    absent={"energy": "no power sensor"},
    verdict=Verdict(status="suspect", reasons=("busy: others",)),
    environment={"protocol": "quick"},
    profile={"nodes": [{"op": "Gemm", "provider": "CPUExecutionProvider", "time_s": 0.1}]},
    device_s=1.5,
)


def test_an_equal_question_is_answered(tmp_path: Path) -> None:
    """The whole outcome comes back, with its age by the clock."""
    now = [1000.0]
    store = MeasuredStore(folder=tmp_path / "measured", clock=lambda: now[0])
    assert store.find(KEY) is None
    store.keep(KEY, OUTCOME)
    now[0] += 60.0
    found = store.find(dict(reversed(KEY.items())))
    assert found
    assert found.outcome == OUTCOME
    assert found.age_s == 60.0
    for name, value in {"model": "sha256:2", "rate_hz": 30.0, "protocol": {"name": "x"}}.items():
        assert store.find({**KEY, name: value}) is None


def test_an_invalid_result_is_not_kept(tmp_path: Path) -> None:
    """It would be answered for ever, where measuring again may help."""
    store = MeasuredStore(folder=tmp_path)
    store.keep(KEY, replace(OUTCOME, verdict=Verdict(status="invalid", reasons=("swap",))))
    assert store.find(KEY) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "{}", '{"format": 1}', '{"format": 99, "key": {}}'])
def test_a_damaged_file_is_measured_again(tmp_path: Path, text: str) -> None:
    """It counts as none, and the next result replaces it."""
    store = MeasuredStore(folder=tmp_path)
    store.keep(KEY, OUTCOME)
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    assert store.find(KEY) is None
    store.keep(KEY, OUTCOME)
    assert store.find(KEY)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """A file in its place: told with the place and what to do."""
    (tmp_path / "measured").write_text("")
    with pytest.raises(StorageError, match="cannot be kept"):
        MeasuredStore(folder=tmp_path / "measured").keep(KEY, OUTCOME)
