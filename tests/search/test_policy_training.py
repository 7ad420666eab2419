"""Training: the same network in torch, everything moves, and what was stopped goes on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeopt.search.policy.assignment import Assignment, utility
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


def test_what_a_search_has_found_is_imitated_where_it_is_better():
    """The best of each instance comes from wherever it was found; what ruins a model never does."""
    generator = np.random.default_rng(5)
    pairs = [generated(generator, 6, 10) for _ in range(4)]
    none = Course.of(pairs, np.random.default_rng(0), each=2)
    ruined = [replace(p, found=(tuple(int(n) - 1 for n in p.true.counts),)) for p in pairs]
    same = Course.of(ruined, np.random.default_rng(0), each=2)
    best = [
        replace(p, found=tuple(map(tuple, targets[:, : len(p.start)].tolist())))
        for p, targets in zip(pairs, none.targets, strict=True)
    ]
    better = Course.of(best, np.random.default_rng(0), each=2)
    worth = [worth_of(each) for each in (none, same, better)]
    assert worth[1] == pytest.approx(worth[0])
    assert (worth[2] >= worth[0] - 1e-9).all()
    assert (worth[2] > worth[0] + 1e-6).any()
    assert all(len(pool) > len(plain) for pool, plain in zip(better.pools, none.pools, strict=True))


def worth_of(course: Course) -> np.ndarray:
    """Of each target [N, each], by what counts."""
    rows = [
        utility(course.bank.worth.values(course.targets[:, n]), course.wanted[:, n])
        for n in range(course.targets.shape[1])
    ]
    return np.stack(rows, axis=1)


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


def learned(course: Course, folder: Path, stopped=lambda: False, seed: int = 0) -> bool:
    """Six rollouts of 32 steps by MaskablePPO, in a folder."""
    pytest.importorskip("sb3_contrib", reason="needs sb3-contrib: pip install 'edgeopt[rl]'")
    from edgeopt.search.policy import ppo

    settings = ppo.PpoSettings(seed=seed, steps=6 * 2 * 16, rate=1e-3, envs=2, rollout=16)
    begin = Trained(fresh(0), {"begun": "anew"})
    return ppo.trained(folder, settings, begin, course, lambda line: None, stopped)


@pytest.fixture(scope="module")
def ppo_folder(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a training by MaskablePPO that nothing interrupted."""
    folder = tmp_path_factory.mktemp("ppo")
    assert learned(course, folder)
    return folder


def test_every_weight_moves_in_ppo(ppo_folder: Path, course: Course):
    """The critic too; and the environment passes Gymnasium's checker."""
    from gymnasium.utils.env_checker import check_env

    from edgeopt.search.policy.gym_env import AssignmentEnv

    check_env(AssignmentEnv(course), skip_render_check=True)
    found = load(ppo_folder / POLICY)
    assert changed(fresh(0), dict(found.weights)) == set(fresh(0))
    assert int(found.origin["ppo_steps"]) == 6 * 2 * 16
    assert found.origin["begun"] == "anew"


def test_ppo_goes_on_as_if_it_had_not_been_stopped(
    ppo_folder: Path, course: Course, tmp_path: Path
):
    """After one rollout, three more, and the rest: amid episodes, and the critic's own time."""
    for count in (1, 3):
        left = iter([False] * count + [True] * 9)
        assert not learned(course, tmp_path, lambda left=left: next(left))
    assert learned(course, tmp_path)
    first, second = load(ppo_folder / POLICY), load(tmp_path / POLICY)
    assert not changed(dict(first.weights), dict(second.weights))
    assert second.origin["ppo_steps"] == first.origin["ppo_steps"]


def test_ppo_goes_on_with_its_own_training_only(ppo_folder: Path, course: Course, tmp_path: Path):
    """Not with another seed, other instances, or a file that is no checkpoint."""
    from edgeopt.errors import UsageError

    before = (ppo_folder / "ppo.zip").read_bytes()
    with pytest.raises(UsageError, match="another seed"):
        learned(course, ppo_folder, seed=1)
    generator = np.random.default_rng(6)
    other = Course.of([generated(generator, 6, 10) for _ in range(4)], generator, each=2)
    with pytest.raises(UsageError, match="other instances"):
        learned(other, ppo_folder)
    assert (ppo_folder / "ppo.zip").read_bytes() == before
    (tmp_path / "ppo.zip").write_bytes(b"PK")
    with pytest.raises(UsageError, match="cannot be read"):
        learned(course, tmp_path)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Everything that TensorBoard would show of a training: step and value by name."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="needs tensorboard: pip install 'edgeopt[rl]'",
    )
    read = accumulator.EventAccumulator(str(folder / "tensorboard")).Reload()
    names = read.Tags()["scalars"]
    return {name: [(e.step, e.value) for e in read.Scalars(name)] for name in names}


def test_what_tensorboard_shows_of_groups(course: Course, tmp_path: Path):
    """The loss of each lesson and what each round gained, read from the event file."""
    lines: list[str] = []
    training = Training(tmp_path, FEW, fresh(1), {}, lines.append)
    assert training.run(course, lambda: False)
    shown = scalars(tmp_path)
    assert [step for step, _ in shown["imitation/loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in shown["group/gained"]] == [1, 2]
    assert f"cross entropy {shown['imitation/loss'][-1][1]:.3f}" in lines[0]


def test_what_tensorboard_shows_of_ppo(ppo_folder: Path):
    """Returns and losses, one point an update, at the steps of the environment."""
    shown = scalars(ppo_folder)
    assert [step for step, _ in shown["rollout/ep_rew_mean"]][-1] == 6 * 2 * 16
    losses = shown["train/value_loss"]
    # An update is written with the rollout behind it.
    assert len(losses) >= 5
    assert all(np.isfinite(value) for _, value in losses)
