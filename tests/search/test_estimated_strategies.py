"""`ladder` and `ilp`: with estimates they take the exam too, and use them; the pieces behind."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from edgeopt.core.objective import Objective
from edgeopt.core.protocols import Space
from edgeopt.plugins import STRATEGIES
from edgeopt.search.codes import EXACT
from edgeopt.search.guided import Guided
from edgeopt.search.ladder_rungs import rungs
from edgeopt.search.program import best
from edgeopt.search.table import EstimatedTable, Table, uniform
from edgeopt.testing import strategy_exam
from edgeopt.testing.toy_estimator import ToyEstimator
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

NAMES = ("ladder", "ilp")
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
BOUNDED = (*OBJECTIVES[:2], Objective(metric="accuracy", direction="max", bound=0.85))


def guided(name: str):
    """A factory whose strategies get an estimator of a space equal to theirs."""

    def make(space: Space, *, seed: int, objectives: tuple[Objective, ...], estimator=None):
        families = [choice.family for choice in space.choices]
        own = ToySpace(families.count("prune"), families.count("rewrite"))
        return STRATEGIES.load(name)(
            space, seed=seed, objectives=objectives, estimator=ToyEstimator(own)
        )

    return make


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_exam_with_estimates(name: str, part):
    """The shelf's exam, with an estimator at hand."""
    part(guided(name))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_told_is_learned(name: str):
    """Every trial reaches the estimator."""
    space = ToySpace()
    estimator = ToyEstimator(ToySpace())
    strategy = STRATEGIES.load(name)(space, seed=0, objectives=OBJECTIVES, estimator=estimator)
    strategy_exam.drive(strategy, ToyDevice(space), [4, 4])
    assert estimator.learned == 8


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("estimates", [True, False])
def test_a_bound_is_found_sooner_than_by_drawing(name: str, estimates: bool):
    """Forty trials reach a lower latency within the bound than forty random ones."""
    found = {}
    for which in ("random", name):
        found[which] = np.mean([_best(which, seed, estimates) for seed in range(4)])
    assert found[name] < found["random"]


def _best(name: str, seed: int, estimates: bool) -> float:
    """The lowest true latency that was measured within the bound, over the baseline's."""
    space = ToySpace(sites=10, rewrites=2, seed=seed)
    device = ToyDevice(space, seed=seed, failing=0.0)
    estimator = ToyEstimator(space) if estimates else None
    strategy = STRATEGIES.load(name)(space, seed=seed, objectives=BOUNDED, estimator=estimator)
    trials = device.measure([space.standard()[0][1]])
    strategy.tell(trials)
    for batch in strategy_exam.drive(strategy, device, [8] * 5):
        trials += device.measure(batch)
    kept = [t for t in trials if BOUNDED[2].feasible(t)]
    start = space.true_values(space.empty())["latency"]
    return min(space.true_values(t.candidate.recipe)["latency"] for t in kept) / start


def test_the_ladder_begins_with_everything_and_ends_with_nothing_that_hurts():
    """Rungs release one choice at a time, and what hurts most for its gain goes first."""
    table = Table(
        cost=((0.0, -0.1), (0.0, -0.2, -0.3), (0.0, 0.1), (0.0, -0.1)),
        damage=((0.0, 5.0), (0.0, 1.0, 2.0), (0.0, 1.0), (0.0, 0.0)),
    )
    ladder = rungs(table)
    assert ladder[0] == (1, 2, 0, 1), "what costs time is never on"
    assert ladder[1] == (0, 2, 0, 1), "the first choice hurts most for its gain"
    assert ladder[-1] == (0, 0, 0, 0)
    changed = [
        sum(a != b for a, b in zip(x, y, strict=True)) for x, y in itertools.pairwise(ladder)
    ]
    assert set(changed) == {1}


@pytest.mark.parametrize("budget", [0.0, 0.5, 1.0, 2.5, math.inf])
def test_the_program_finds_what_trying_everything_finds(budget: float):
    """On a random table with borders the solution is the best of all codes, also after cuts."""
    generator = np.random.default_rng(3)
    sizes = (3, 2, 3, 2, 2)
    table = Table(
        cost=tuple((0.0, *generator.normal(-0.1, 0.2, n - 1)) for n in sizes),
        damage=tuple((0.0, *generator.random(n - 1)) for n in sizes),
        edges={(i, i + 1): float(generator.normal(0.0, 0.2)) for i in range(len(sizes) - 1)},
    )
    every = list(itertools.product(*map(range, sizes)))
    known = []
    for _ in range(4):
        left = [row for row in every if row not in known and table.damage_of(row) <= budget]
        made = best(table, budget, known)
        if not left:
            assert made is None
            continue
        assert made is not None
        assert table.damage_of(made) <= budget + 1e-9
        assert table.cost_of(made) == pytest.approx(min(map(table.cost_of, left)), abs=1e-3)
        known.append(made)


def test_a_failure_misses_no_bound():
    """What did not run says nothing about where a bound lies; what was measured does."""
    space = ToySpace()
    search = Guided(space, BOUNDED, None)
    rows = [codes for codes in uniform(space.choices) if any(codes)][:2]
    asked = search.archive.new(rows, 2)
    failed = ToyDevice(space, failing=1.0).measure(asked[:1])
    measured = ToyDevice(space, failing=0.0).measure(asked[1:], start=1)
    search.tell([*failed, *measured])
    assert search.keeps(rows[0]) is None
    assert search.keeps(rows[1]) is not None


def test_the_program_is_quiet():
    """The solver prints on stdout in some solves; stdout belongs to results."""
    code = """
from edgeopt.plugins import STRATEGIES
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace
space = ToySpace(sites=10, rewrites=2)
strategy = STRATEGIES.load("ilp")(space, seed=0, objectives=OBJECTIVES)
for _ in range(5):
    strategy.tell(ToyDevice(space).measure(strategy.ask(8)))
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_estimated_table_says_what_the_estimator_says():
    """Of two neighbours that are both on the table predicts exactly what the estimator does."""
    space = ToySpace(sites=5, rewrites=0)
    estimator = ToyEstimator(space)
    table = EstimatedTable(space, estimator).now()
    codes = tuple(
        int(choice.family in EXACT or choice.name in {"quantize:s1", "quantize:s2"})
        for choice in space.choices
    )
    predicted = estimator.predict(space.decode(codes)).mean("latency_est")
    assert table.cost_of(codes) == pytest.approx(predicted)
