"""Every strategy on the shelf takes the shelf's exam; and what is special about each."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from edgeopt.core.front import front_of
from edgeopt.core.indicators import hypervolume
from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space, Strategy
from edgeopt.plugins import STRATEGIES
from edgeopt.testing import strategy_exam
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

PARTS = [
    strategy_exam.keeps_count_and_never_repeats,
    strategy_exam.proposes_valid_recipes,
    strategy_exam.is_deterministic,
    strategy_exam.goes_on_after_a_kill,
    strategy_exam.survives_failures_and_strangers,
    strategy_exam.takes_partial_results,
    strategy_exam.comes_to_an_end,
    strategy_exam.lives_without_choices,
]


LONG = {"rl_mlp"}
"""Take the exam with short rollouts in a file of their own."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
@pytest.mark.parametrize("name", [name for name in STRATEGIES.names() if name not in LONG])
def test_exam(name: str, part):
    """The shelf's exam, part by part."""
    part(STRATEGIES.load(name))


def test_examine_runs_every_part():
    """`examine` leaves out none of the parts that are tested one by one here."""
    source = inspect.getsource(strategy_exam.examine)
    assert all(part.__name__ in source for part in PARTS)


class Repeats:
    """A bad strategy, for the exam of the exam: always proposes the same."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def ask(self, count: int):
        return tuple(c for _, c in self.space.standard())[:count]

    def tell(self, trials):
        pass


def test_exam_fails_a_strategy_that_repeats_itself():
    """The exam can be failed."""

    def make(space: Space, *, seed: int, objectives: tuple[Objective, ...]) -> Strategy:
        return Repeats(space)

    with pytest.raises(AssertionError, match="twice"):
        strategy_exam.keeps_count_and_never_repeats(make)
    with pytest.raises(AssertionError, match="never came to an end"):
        strategy_exam.comes_to_an_end(make)


def test_exam_fails_a_strategy_that_reaches_into_the_space():
    """Only the protocol's verbs are answered."""

    def make(space: Space, *, seed: int, objectives: tuple[Objective, ...]) -> Strategy:
        space.true_values(space.empty())  # pyright: ignore
        return Repeats(space)

    with pytest.raises(AssertionError, match="reached into"):
        strategy_exam.keeps_count_and_never_repeats(make)


def test_static_keeps_the_order_and_knows_the_names():
    """The standard candidates in order, the first alone, each with the name that people know."""
    space = ToySpace()
    strategy = STRATEGIES.load("static")(space, seed=0, objectives=OBJECTIVES)
    asked = list(strategy.ask(10))
    assert len(asked) == 1
    while more := strategy.ask(10):
        asked += more
    assert [strategy.labels[c.key] for c in asked] == [name for name, _ in space.standard()]


def test_random_covers_sparse_and_dense_recipes():
    """Densities are uniform: fair coins would leave the ends of this range empty."""
    space = ToySpace(sites=30, rewrites=0)
    strategy = STRATEGIES.load("random")(space, seed=1, objectives=OBJECTIVES)
    counts = [
        sum(a.transform == "toy_quantize" for a in c.recipe.actions) for c in strategy.ask(100)
    ]
    assert min(counts) <= 3
    assert max(counts) >= 27
    assert 10 < np.mean(counts) < 20


def test_random_mostly_applies_exact_rewrites():
    """Exact rewrites cost nothing; four of five are on in the mean."""
    space = ToySpace(sites=4, rewrites=20)
    strategy = STRATEGIES.load("random")(space, seed=1, objectives=OBJECTIVES)
    shares = [
        sum(a.transform == "toy_rewrite" for a in c.recipe.actions) / 20 for c in strategy.ask(60)
    ]
    assert 0.6 < np.mean(shares) < 0.95


PYMOO = """
import sys
{before}
from edgeopt.errors import UsageError
from edgeopt.plugins import STRATEGIES
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace
space = ToySpace()
try:
    strategy = STRATEGIES.load("nsga2")(space, seed=0, objectives=OBJECTIVES)
    for _ in range(5):
        strategy.tell(ToyDevice(space).measure(strategy.ask(8)))
except UsageError as error:
    sys.exit(str(error))
"""


def _fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )


def test_nsga2_without_pymoo_says_what_to_install():
    """A base install has no pymoo: loading the file is fine, using it is a message."""
    done = _fresh(PYMOO.format(before="sys.modules['pymoo'] = None"))
    assert done.returncode == 1
    assert "pip install 'edgeopt[search]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_nsga2_is_quiet():
    """pymoo prints about compiled modules; nobody asked."""
    done = _fresh(PYMOO.format(before=""))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["random", "nsga2"])
def test_other_seeds_ask_otherwise(name: str):
    """The seed matters."""
    space = ToySpace()
    first, second = (
        STRATEGIES.load(name)(space, seed=seed, objectives=OBJECTIVES).ask(20) for seed in (0, 1)
    )
    assert first != second


def test_nsga2_children_come_from_survivors():
    """With accuracy bounded, late candidates keep the bound far more often than random ones."""
    space = ToySpace(sites=12, seed=3)
    bounded = (*OBJECTIVES[:2], Objective(metric="accuracy", direction="max", bound=0.85))
    device = ToyDevice(space, failing=0.0)
    shares = {}
    for name in ("random", "nsga2"):
        strategy = STRATEGIES.load(name)(space, seed=0, objectives=bounded)
        batches = strategy_exam.drive(strategy, device, [10] * 15)
        late = device.measure([c for batch in batches[-5:] for c in batch])
        shares[name] = np.mean([bounded[2].feasible(trial) for trial in late])
    assert shares["nsga2"] > shares["random"] + 0.2


def test_nsga2_ignores_objectives_that_nothing_has():
    """An objective without any value (no power sensor) does not make everything infeasible."""
    space = ToySpace()
    device = ToyDevice(space)
    asked = []
    for objectives in (OBJECTIVES, (*OBJECTIVES, Objective(metric="energy"))):
        strategy = STRATEGIES.load("nsga2")(space, seed=0, objectives=objectives)
        asked.append(strategy_exam.drive(strategy, device, [8] * 6))
    assert asked[0] == asked[1]


def test_nsga2_beats_random_on_the_toy():
    """Same instance, same seeds, equal evaluations; the margin of the benchmark is far larger."""
    found = {}
    for name in ("random", "nsga2"):
        found[name] = np.mean([_hypervolume(name, seed) for seed in range(3)])
    assert found["nsga2"] > 1.1 * found["random"]


def _hypervolume(name: str, seed: int) -> float:
    space = ToySpace(sites=12, seed=seed)
    device = ToyDevice(space, seed=seed)
    strategy = STRATEGIES.load(name)(space, seed=seed, objectives=OBJECTIVES)
    batches = strategy_exam.drive(strategy, device, [8] * 10)
    trials = device.measure([c for batch in batches for c in batch])
    start = space.true_values(space.empty())
    rows = [
        [
            true["latency"] / start["latency"],
            true["size"] / start["size"],
            (start["accuracy"] - true["accuracy"]) / 0.1,
        ]
        for member in front_of(trials, OBJECTIVES, "toy").members
        for true in [space.true_values(member.candidate.recipe)]
    ]
    return hypervolume(np.array(rows), np.array([1.1, 1.1, 1.0]))


def test_static_makes_a_few_at_a_time():
    """The first are asked for before the last are made; none twice, and none that is known."""
    made: list[str] = []

    class Slow(ToySpace):
        def guesses(self):
            for name, candidate in self.standard():
                made.append(name)
                yield name, candidate

    space = Slow()
    strategy = STRATEGIES.load("static")(space, seed=0, objectives=OBJECTIVES)
    first = strategy.ask(1)
    assert made == ["baseline"]
    second = space.standard()[1][1]
    strategy.tell(ToyDevice(space).measure([second]))
    assert [c.key for c in strategy.ask(10)] == [space.standard()[2][1].key]
    assert strategy.ask(10) == ()
    assert len(first) == 1
