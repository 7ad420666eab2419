"""Measuring environments: what the device did is not what a recipe costs."""

import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from edgeopt.api.environment import open_environment, open_flat_environment
from edgeopt.api.measuring import MeasuredCosts
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.measurement import Failure, Measurement, Value, Verdict
from edgeopt.core.samples import Interval, Samples
from edgeopt.core.trial import Trial
from edgeopt.envs import make, make_flat
from edgeopt.envs.flat_v0 import FUSE, QUANTIZE
from edgeopt.errors import DeviceError, InconclusiveError, UsageError
from edgeopt.measure.jobs import CandidateError, Device
from edgeopt.targets.local import LocalTarget
from edgeopt.testing import graphs
from edgeopt.testing.target_exam import bench_job, material
from edgeopt.testing.toy_space import ToySpace

KILLED = Failure(stage="run", reason="ended by signal 9 (SIGKILL)", sudden=True)
REFUSED = Failure(stage="load", reason="the runtime does not load it")
SPOILT = Measurement(values={}, verdict=Verdict(status="invalid", reasons=("drift: +63 %",)))
_TICKS = os.sysconf("SC_CLK_TCK")


def measured(ratio: float) -> Measurement:
    """Blocks of a candidate that takes so many times the baseline's time, and its size."""
    samples = Samples(unit="s", blocks=((ratio, ratio),) * 4, baseline=((1.0, 1.0),) * 4)
    latency = Value(
        value=ratio,
        unit="s",
        interval=Interval(value=ratio, low=ratio, high=ratio),
        samples=samples,
    )
    accuracy = Value(value=0.93, unit="1")
    return Measurement(
        values={"latency": latency, "size": Value(value=50, unit="B"), "accuracy": accuracy}
    )


class Answers:
    """Outcomes one after the other; the last one stays."""

    def __init__(self, *outcomes: Failure | Measurement | DeviceError) -> None:
        self.outcomes = list(outcomes)
        self.asked = 0

    def __call__(self, recipe: Recipe) -> Trial:
        self.asked += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, DeviceError):
            raise outcome
        return Trial(
            number=0,
            candidate=Candidate(recipe=recipe),
            device="board",
            protocol="quick",
            strategy="environment",
            outcome=outcome,
        )


def costs(*outcomes: Failure | Measurement | DeviceError) -> tuple[MeasuredCosts, Answers]:
    answers = Answers(*outcomes)
    return MeasuredCosts(answers, size=100.0, accuracy=0.95), answers


def some_recipe() -> Recipe:
    space = ToySpace(sites=4)
    return space.empty().then(space.legal(space.empty())[0])


def test_a_measurement_is_ratios_and_what_is_lost():
    """Paired ratio, size over the given model's, points lost; measured once a recipe."""
    found, answers = costs(measured(0.5))
    assert found.metrics == ("latency", "size", "accuracy_drop")
    assert found.costs(some_recipe()) == pytest.approx([0.5, 0.5, 0.02])
    assert found.costs(some_recipe()) == pytest.approx([0.5, 0.5, 0.02])
    assert answers.asked == 1
    assert found.costs(ToySpace().empty()).tolist() == [1.0, 1.0, 0.0]
    assert MeasuredCosts(answers, size=1.0, accuracy=None).metrics == ("latency", "size")


def test_a_kill_is_no_verdict_until_it_happens_again():
    """Unknown the first time; what happens twice is the recipe's doing; once may be anything."""
    found, answers = costs(KILLED, measured(0.5))
    with pytest.raises(InconclusiveError, match="signal 9"):
        found.costs(some_recipe())
    assert np.isfinite(found.costs(some_recipe())).all()
    found, answers = costs(KILLED)
    with pytest.raises(InconclusiveError):
        found.costs(some_recipe())
    assert np.isinf(found.costs(some_recipe())).all()
    assert answers.asked == 2


def test_a_refusal_is_the_recipes_and_a_busy_machine_is_not():
    """What the runtime does not load costs everything; what was disturbed is not known."""
    assert np.isinf(costs(REFUSED)[0].costs(some_recipe())).all()
    with pytest.raises(InconclusiveError, match="drift"):
        costs(SPOILT)[0].costs(some_recipe())


@pytest.mark.parametrize(
    "outcome", [KILLED, SPOILT, DeviceError("no answer")], ids=lambda o: str(o)[:8]
)
def test_neither_environment_blames_the_action(outcome):
    """Both are truncated where they stood, with no reward, and go on when it can be measured."""
    env = make(ToySpace(sites=4), costs(outcome, measured(0.5))[0])
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(2)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["unknown"]
    assert not env.recipe.actions
    env.reset(seed=0)
    assert env.step(2)[4]["relative_costs"][0] == pytest.approx(0.5)
    flat = make_flat(ToySpace(sites=4), costs(outcome, measured(0.5))[0])
    flat.reset()
    pair = np.array([QUANTIZE, flat.layers.index("s0")])
    _, reward, terminated, truncated, info = flat.step(pair)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["unknown"]
    assert not flat.recipe.actions
    flat.reset()
    assert flat.step(pair)[1] > 0


class Killer(threading.Thread):
    """Kills children of a process once they have worked for so many seconds."""

    def __init__(self, parent: int, after_s: float) -> None:
        super().__init__(daemon=True)
        self.parent, self.after_s = parent, after_s
        self.killed: list[int] = []
        self.on = True

    def run(self) -> None:
        while self.on:
            for path in Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = path.read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                worked_s = (int(fields[11]) + int(fields[12])) / _TICKS
                if int(fields[1]) == self.parent and worked_s >= self.after_s:
                    pid = int(path.parent.name)
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append(pid)
            time.sleep(0.002)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution with a batch normalization to fold, without data."""
    b = graphs.Builder()
    b.conv("x", "c", (4, 4))
    b.batchnorm("c", "n", 4)
    shape = ("N", 4, 8, 8)
    out = b.node("Relu", ["n"], "y")
    proto = b.model([("x", "float32", shape)], [(out, "float32", shape)])
    return graphs.write(proto, tmp_path_factory.mktemp("model"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("flat", [False, True], ids=["EdgeOpt-v0", "EdgeOptFlat-v0"])
def test_a_real_kill_ends_the_episode_and_blames_nothing(flat, model, tmp_path):
    """SIGKILL of the job on this machine, then of the whole agent: device trouble, not a loss."""
    opened = open_flat_environment if flat else open_environment
    with opened(model, costs="measured", store=tmp_path / "store") as env:
        target = env._evaluator._measured._bench.device.target._target
        env.reset(seed=0)
        action = np.array([FUSE, 0]) if flat else 2
        killer = Killer(target.pid, after_s=0.05)
        killer.start()
        _, reward, terminated, truncated, info = env.step(action)
        killer.on = False
        killer.join()
        assert killer.killed
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert "signal 9" in info["unknown"]
        assert not env.recipe.actions
        os.kill(target.pid, signal.SIGKILL)
        for _ in range(2):
            env.reset(seed=0)
            try:
                _, reward, _, truncated, info = env.step(action)
            except DeviceError:
                break
            assert (reward, truncated) == (0.0, True)
            assert info["unknown"]
        assert not env.recipe.actions


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_real_kill_while_it_runs_is_a_sudden_end(tmp_path):
    """SIGKILL of a job that is measuring, whichever side it is at: not told from a crash of it."""
    model, feeds = material(tmp_path)
    with LocalTarget() as target:
        killer = Killer(target.pid, after_s=1.2)
        killer.start()
        device = Device(target, nullcontext(), deadline_s=300.0)
        job = bench_job(str(model), str(feeds), min_seconds=60.0)
        with pytest.raises(CandidateError) as caught:
            device.ask("bench", **job)
        killer.on = False
        killer.join()
    assert caught.value.failure.sudden
    assert caught.value.failure.stage == "run"
    assert "signal 9" in caught.value.failure.reason


def test_only_graphs_are_measured(model, tmp_path):
    """Plans and live rewrites write no file; a wrong name is said with those that there are."""
    for options in ({"view": "plans", "costs": "measured"}, {"costs": "guessed"}, {"view": "all"}):
        with (
            pytest.raises(UsageError, match=r"never measured|there is no"),
            open_environment(model, store=tmp_path / "store", **options),
        ):
            pass
