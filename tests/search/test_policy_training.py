"""Training: the same network in torch, everything moves, and what was stopped goes on."""

from pathlib import Path

import numpy as np
import pytest

from edgeopt.search.policy.assignment import Assignment
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.generated import generated
from edgeopt.search.policy.network import forward, fresh
from edgeopt.search.policy.weights import POLICY, Trained, load

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'edgeopt[rl]'")

from edgeopt.search.policy.learner import Learner, Settings  # noqa: E402
from edgeopt.search.policy.torch_network import Network, tensors  # noqa: E402
from edgeopt.search.policy.training import Training  # noqa: E402

FEW = Settings(seed=1, lessons=4, batch=8, rounds=2, groups=2, rollouts=3)


@pytest.fixture(scope="module")
def course() -> Course:
    """Four small models."""
    generator = np.random.default_rng(5)
    return Course.of([generated(generator, 6, 10) for _ in range(4)], generator, each=2)


def seen_of(course: Course) -> Assignment:
    """Eight states."""
    return course.lesson(8, np.random.default_rng(0)).state


def changed(before: dict, after: dict) -> set[str]:
    """Names of the weights that are not what they were."""
    return {name for name in before if not np.array_equal(before[name], after[name])}


def test_torch_and_numpy_say_the_same(course: Course):
    """Logits and values."""
    generator = np.random.default_rng(0)
    weights = {
        n: (v + 0.1 * generator.standard_normal(v.shape)).astype(np.float32)
        for n, v in fresh(0).items()
    }
    seen = seen_of(course).observe()
    logits, value = forward(weights, seen.arrays())
    other, again = Network(weights)(tensors(seen))
    assert other.detach().numpy() == pytest.approx(logits, abs=1e-4)
    assert again.detach().numpy() == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("phase", ["imitate", "reinforce"])
def test_all_weights_but_the_critic_move(course: Course, phase: str):
    """Imitation and groups know no values."""
    learner = Learner(fresh(0), FEW)
    for _ in range(3):
        getattr(learner, phase)(course)
    moved = changed(fresh(0), learner.network.arrays())
    critic = {"value_w", "value_b", "value_out", "value_out_b"}
    assert moved == set(fresh(0)) - critic


def test_imitation_learns(course: Course):
    """The cross entropy falls on a few models."""
    learner = Learner(fresh(0), Settings(lessons=30, batch=12))
    losses = [learner.imitate(course) for _ in range(30)]
    assert np.mean(losses[-8:]) < np.mean(losses[:4]) - 0.1


def test_a_stopped_training_goes_on_as_if_it_had_not_been(course: Course, tmp_path: Path):
    """Stopped after each phase's first step: the same weights in the end."""
    whole = Training(tmp_path / "a", FEW, fresh(1), {}, lambda line: None)
    assert whole.run(course, lambda: False)
    lines: list[str] = []
    for stop in (1, 3, 2, 9):
        left = iter([False] * stop + [True] * 9)
        part = Training(tmp_path / "b", FEW, fresh(1), {}, lines.append)
        finished = part.run(course, lambda left=left: next(left))
    assert finished
    assert any("going on after 1 steps and 0 rounds" in line for line in lines)
    first, second = load(tmp_path / "a" / POLICY), load(tmp_path / "b" / POLICY)
    assert not changed(dict(first.weights), dict(second.weights))
    assert first.origin["lessons"] == "4"
    assert first.origin["rounds"] == "2"


def test_every_weight_moves_in_ppo(course: Course, tmp_path: Path):
    """The critic too; and the environment passes Gymnasium's checker."""
    pytest.importorskip("sb3_contrib", reason="needs sb3-contrib: pip install 'edgeopt[rl]'")
    from gymnasium.utils.env_checker import check_env

    from edgeopt.search.policy import ppo
    from edgeopt.search.policy.gym_env import AssignmentEnv

    check_env(AssignmentEnv(course), skip_render_check=True)
    steps = 6 * 2 * 16
    done = ppo.trained(
        tmp_path,
        ppo.PpoSettings(steps=steps, rate=1e-3, envs=2, rollout=16),
        Trained(fresh(0), {}),
        course,
        lambda line: None,
        lambda: False,
    )
    assert done
    found = load(tmp_path / POLICY)
    assert changed(fresh(0), dict(found.weights)) == set(fresh(0))
    assert int(found.origin["ppo_steps"]) == steps
