"""The assignment problem, the network without torch, the files, and the source of proposals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeopt.errors import UsageError
from edgeopt.search.archive import Archive
from edgeopt.search.codes import starting
from edgeopt.search.policy import weights as stored
from edgeopt.search.policy.assignment import Assignment, bank_of, preferences, utility
from edgeopt.search.policy.course import Course
from edgeopt.search.policy.generated import generated
from edgeopt.search.policy.network import forward, fresh, shapes
from edgeopt.search.policy.real import on_a_device
from edgeopt.search.policy.rollout import chooser, rolled
from edgeopt.search.policy.tables import changes
from edgeopt.search.policy.teacher import climbed, nearer
from edgeopt.search.table import fitted
from edgeopt.testing.toy_space import OBJECTIVES, ToySpace

SMALL = {"shortest": 6, "longest": 12}


def pairs(count: int, seed: int = 0):
    """Simulated models with a search's view of them."""
    generator = np.random.default_rng(seed)
    return [generated(generator, **SMALL) for _ in range(count)]


def tasks(count: int = 4, seed: int = 0) -> Assignment:
    """Plans at random states."""
    generator = np.random.default_rng(seed)
    some = pairs(count, seed)
    bank = bank_of([p.shown for p in some], [p.start for p in some], [p.true for p in some])
    last = bank.static.last * bank.static.exists[:, :, 0]
    codes = np.floor(generator.random(last.shape) * (last + 1)).astype(np.int64)
    return Assignment.begin(bank, preferences(count, generator), codes)


def warmed(seed: int = 1):
    """Weights whose logits differ."""
    generator = np.random.default_rng(seed)
    return {
        name: (value + 0.1 * generator.standard_normal(value.shape)).astype(np.float32)
        for name, value in fresh(seed).items()
    }


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 999))
def test_predicted_changes_are_what_steps_do(seed: int):
    """Of every candidate, single edits and macros alike, on what is shown and on what counts."""
    state = tasks(2, seed)
    for tables in (state.bank.shown, state.bank.worth):
        alone = replace(tables, clashes=tables.clashes * 0)  # damages below 0 are cut otherwise
        said, _ = changes(alone, state.bank.edits, state.codes)
        before = alone.values(state.codes)
        for candidate in range(said.shape[1]):
            picked = np.full(2, candidate)
            valid = state.observe().valid[:, candidate] > 0
            after = alone.values(state.bank.edits.after(state.codes, picked))
            assert after[valid] - before[valid] == pytest.approx(said[valid, candidate], abs=1e-9)


def test_rewards_telescope():
    """The sum over an episode is the difference of its ends less what the steps cost."""
    state = tasks(6)
    generator = np.random.default_rng(0)
    choose = chooser(warmed(), generator, np.zeros(6, np.bool_))
    made = rolled(state, choose, keep=True)
    steps = sum((step.action > 0) & step.active for step in made.steps)
    ends = made.end.potential() - state.potential()
    assert made.gained == pytest.approx(ends - 0.0015 * steps, abs=1e-9)


def test_stop_is_always_there_and_ends():
    """And an edit that changes nothing is not."""
    state = tasks()
    seen = state.observe()
    assert (seen.valid[:, 0] == 1).all()
    single = state.bank.edits.choice
    same = np.take_along_axis(state.codes, single, 1) == state.bank.edits.code
    assert not (seen.valid[:, 1 : 1 + single.shape[1]] * same).any()
    after, rewards = state.step(np.zeros(4, np.int64))
    assert after.done.all()
    assert (rewards == 0).all()
    assert (after.codes == state.codes).all()


def test_permuted_candidates_permute_logits():
    """One scorer for all; the value is of the whole."""
    seen = tasks().observe().arrays()
    logits, value = forward(warmed(), seen)
    order = np.random.default_rng(0).permutation(logits.shape[1])
    moved = dict(seen) | {n: seen[n][:, order] for n in ("candidate", "members", "valid")}
    other, again = forward(warmed(), moved)
    assert other == pytest.approx(logits[:, order], abs=1e-4)
    assert again == pytest.approx(value, abs=1e-4)
    assert np.ptp(logits[seen["valid"] > 0]) > 0.1


def test_padding_changes_nothing():
    """A small model beside a large one is seen as it is alone."""
    generator = np.random.default_rng(0)
    small, large = generated(generator, 6, 8), generated(generator, 11, 13)
    wanted = np.array([[0.5, 0.3, 0.2]])
    alone = bank_of([small.shown], [small.start])
    beside = bank_of([small.shown, large.shown], [small.start, large.start])
    beside = beside.take(np.array([0]))
    found: list[np.ndarray] = []
    for bank in (alone, beside):
        seen = Assignment.begin(bank, wanted, bank.starts).observe()
        logits, value = forward(warmed(), seen.arrays())
        found.append(np.concatenate([logits[seen.valid > 0], value]))
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_what_may_not_be_chosen_never_is():
    """Neither greedily nor drawn."""
    state = tasks(8)
    generator = np.random.default_rng(0)
    for greedy in (True, False):
        seen = state.observe()
        action = chooser(warmed(), generator, np.full(8, greedy))(seen)
        assert (seen.valid[np.arange(8), action] == 1).all()


def test_the_nearest_candidates_lead_to_the_target():
    """Whoever follows them arrives, and then stops."""
    state, generator = tasks(5), np.random.default_rng(0)
    target = tasks(5, 1).codes[:, : state.codes.shape[1]]
    last = state.bank.static.last * state.bank.static.exists[:, :, 0]
    target = np.minimum(np.resize(target, state.codes.shape), last).astype(np.int64)
    for _ in range(30):
        shares = nearer(state.bank.edits, state.codes, target)
        assert shares.sum(axis=1) == pytest.approx(1.0)
        action = np.array([generator.choice(len(row), p=row) for row in shares])
        state, _ = state.step(action)
        if state.done.all():
            break
    assert (state.codes == target).all()


def test_local_search_never_loses():
    """By what counts, for every preference."""
    state = tasks(6)
    better = climbed(state.bank, state.codes, state.preference)
    then = utility(state.bank.worth.values(better), state.preference)
    assert (then >= state.potential()).all()
    assert (then > state.potential()).any()


def test_a_course_has_targets_for_all_its_preferences():
    """Which are at least as good as where a search begins."""
    generator = np.random.default_rng(0)
    course = Course.of(pairs(3), generator, each=2)
    for n in range(2):
        values = course.bank.worth.values(course.targets[:, n])
        start = course.bank.worth.values(course.bank.starts)
        wanted = course.wanted[:, n]
        assert (utility(values, wanted) >= utility(start, wanted) - 1e-9).all()
    assert course.lesson(5, generator).shares.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["rl", "rl_group"])
def test_shipped_weights_say_where_they_come_from(name: str):
    """Under 2 MB, with script and seed, and of this network."""
    assert (stored.SHIPPED / f"{name}.safetensors").stat().st_size < 2_000_000
    found = stored.shipped(name)
    assert {"script", "seed", "lessons", "processor_s"} <= set(found.origin)
    assert {n: v.shape for n, v in found.weights.items()} == shapes()


def test_weights_come_back_as_they_were(tmp_path: Path):
    """Bit by bit, with their words."""
    path = tmp_path / "some" / "policy.safetensors"
    stored.save(path, stored.Trained(warmed(), {"seed": "3"}))
    found = stored.load(path)
    assert found.origin == {"seed": "3"}
    assert all((found.weights[n] == v).all() for n, v in warmed().items())


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"\x04\0\0\0\0\0\0\0null", b"\2" + b"\0" * 9]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes):
    """With their name, and what would do."""
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        stored.load(path)
    assert error.value.where == str(path)
    assert "edgeopt train" in (error.value.hint or "")


def test_weights_of_another_network_are_refused(tmp_path: Path):
    """Of another width, or not finite, or not there."""
    path = tmp_path / "p.safetensors"
    for name, value in (("node_w", np.zeros((3, 3))), ("node_b", np.full(32, np.nan))):
        stored.save(path, stored.Trained({**fresh(0), name: value.astype(np.float32)}, {}))
        with pytest.raises(UsageError, match=name):
            stored.load(path)
    with pytest.raises(UsageError, match="cannot be read"):
        stored.load(tmp_path / "nothing")


def test_a_real_model_stays_itself_on_any_device():
    """Its choices, starts and signs of what they change; what a device makes of them is drawn."""
    space = ToySpace(sites=4)
    table = fitted(space.choices, Archive(space), OBJECTIVES)
    sizes = [[0.0, *(-0.01 * k for k in range(1, len(choice)))] for choice in space.choices]
    made = [
        on_a_device(space.choices, table, sizes, np.random.default_rng(seed)) for seed in range(3)
    ]
    for pair in made:
        true = pair.true
        assert true.counts.tolist() == [len(choice) for choice in space.choices]
        assert pair.start == tuple(starting(choice) for choice in space.choices)
        assert np.sign(true.cost[:, 1]).tolist() == [np.sign(row[1]) for row in table.cost]
        assert true.size[0, 1] == pytest.approx(-0.01)
        assert np.isfinite(true.damage).all()
        assert true.edges.keys() == table.edges.keys()
    assert not np.allclose(made[0].true.cost, made[1].true.cost)
    generator = np.random.default_rng(0)
    course = Course.of([*made, generated(generator, 6, 10)], generator, each=2)
    assert course.lesson(4, generator).shares.sum(axis=1) == pytest.approx(1.0)


def test_another_preference_is_another_policy():
    """The same plans, other weights of cost, damage and size: other logits."""
    state = tasks(4)
    for name in ("rl", "rl_group"):
        weights = stored.shipped(name).weights
        told = []
        for preference in ([0.9, 0.05, 0.05], [0.05, 0.05, 0.9]):
            asked = replace(state, preference=np.tile(preference, (len(state.codes), 1)))
            told.append(forward(weights, asked.observe().arrays())[0])
        assert (told[0].argmax(axis=1) != told[1].argmax(axis=1)).any()
